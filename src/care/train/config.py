"""The configuration of a run: flat, typed, saved as TOML and read back the same."""

import dataclasses
import difflib
import json
import math
import tomllib
import types
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from care.methods import MethodSettings

Precision = Literal["auto", "bf16", "fp16", "fp32"]

LARGEST_BATCH = 1 << 20
LARGEST_RATE = 1e37  # steps of more than this do not fit into a float32


@dataclass(frozen=True, kw_only=True)
class Config(MethodSettings):
    """Everything that decides what a run computes. Where it is written, and how it is watched, is not part of it."""

    data: str
    split: str = "train"
    limit: int | None = None
    validation: int = 0
    epochs: int = 400
    batch_size: int = 256
    accumulate: int = 1
    optimizer: Literal["adam", "adamw", "sgd", "lars"] = "adam"
    learning_rate: float = 1e-3
    weight_decay: float = 1e-6
    sgd_momentum: float = 0.9
    schedule: Literal["constant", "cosine", "cooldown"] = "constant"
    warmup_epochs: int = 0
    ema: float = 0.0
    seed: int = 0
    device: str = "auto"
    precision: Precision = "auto"
    compile: bool = False
    graph: bool = True
    deterministic: bool = False
    evaluate_every: int = 1

    def __post_init__(self) -> None:
        _check_types(self)
        for name in ("epochs", "accumulate", "evaluate_every", "batch_size"):
            _require(getattr(self, name) >= 1, f"{name} must be at least 1, got {getattr(self, name)}")
        _require(self.batch_size >= 2, "batch_size must be at least 2: one image has nothing to be compared with")
        _require(self.batch_size <= LARGEST_BATCH, f"batch_size must be at most {LARGEST_BATCH}, got {self.batch_size}")
        _require(self.validation >= 0, f"validation must not be negative, got {self.validation}")
        _require(self.limit is None or self.limit >= 1, f"limit must be at least 1, got {self.limit}")
        _require(self.learning_rate > 0, f"learning_rate must be greater than 0, got {self.learning_rate}")
        _require(self.learning_rate <= LARGEST_RATE, f"learning_rate must be at most 1e37, got {self.learning_rate}")
        _require(self.weight_decay >= 0, f"weight_decay must not be negative, got {self.weight_decay}")
        _require(0 <= self.sgd_momentum < 1, f"sgd_momentum must be in [0, 1), got {self.sgd_momentum}")
        _require(0 <= self.warmup_epochs <= self.epochs, f"warmup_epochs must be in [0, {self.epochs}]")
        _require(0 <= self.ema < 1, f"ema must be in [0, 1), got {self.ema}")
        _require(self.batch_size % self.accumulate == 0, f"accumulate must divide the batch of {self.batch_size}")
        _require(
            self.batch_size >= 2 * self.accumulate, f"accumulate must be at most {self.batch_size // 2}, half a batch"
        )
        self.check(self.batch_size // self.accumulate)

    @property
    def measured_policy(self) -> str:
        """The augmentations that a run is measured under unless others are asked for: those of the equivariance loss.

        Where that has coordinates of its own, those of the contrast: then a run without them is measured alike.
        """
        return self.policy if self.turned else self.chunk_policy

    def to_toml(self) -> str:
        """One `name = value` per line, in the order of the fields; what is None is left out."""
        values = ((field.name, getattr(self, field.name)) for field in dataclasses.fields(self))
        return "".join(f"{name} = {_toml(value)}\n" for name, value in values if value is not None)

    @classmethod
    def from_toml(cls, text: str, where: str = "the configuration") -> "Config":
        """The configuration in `text`; unknown names and wrong types are a ValueError that says what to write."""
        try:
            values = tomllib.loads(text)
        except (
            ValueError,
            RecursionError,
        ) as error:  # numbers of 5,000 digits and brackets in brackets are no TOML error
            raise ValueError(f"{where} is not valid TOML: {error}") from error
        _require("data" in values, f"{where} does not say what to train on: it needs data = NAME")
        try:
            return cls(**known_names(values, where))
        except ValueError as error:
            raise ValueError(str(error) if where in str(error) else f"{where}: {error}") from error

    @classmethod
    def read(cls, file: Path) -> "Config":
        """The configuration in a file such as `config.toml`."""
        try:
            return cls.from_toml(file.read_text(encoding="utf-8"), str(file))
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{file} is not text: a configuration is a TOML file, such as a run's config.toml"
            ) from error

    def differences(self, other: "Config") -> list[str]:
        """`name: ours, theirs` for each field in which two configurations differ."""
        pairs = ((f.name, getattr(self, f.name), getattr(other, f.name)) for f in dataclasses.fields(self))
        return [f"{name}: {ours} instead of {theirs}" for name, ours, theirs in pairs if ours != theirs]

    def obstacles(self, started: "Config") -> list[str]:
        """What keeps a run that was started with another configuration from being gone on with as this one.

        More epochs do not, where nothing else depends on how many there are.
        """
        longer = self.epochs > started.epochs and self.schedule == "constant" and self.method != "byol"
        return self.differences(dataclasses.replace(started, epochs=self.epochs) if longer else started)


def known_names(values: dict[str, Any], where: str) -> dict[str, Any]:
    """`values`, if every name in it is a field of the configuration."""
    names = [field.name for field in dataclasses.fields(Config)]
    for name in values:
        if name not in names:
            close = difflib.get_close_matches(name, names, 1)
            raise ValueError(f"{where} has no setting {name!r}" + (f"; did you mean {close[0]!r}?" if close else ""))
    return values


def _check_types(config: Config) -> None:
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if isinstance(value, int) and not isinstance(value, bool) and field.type is float:
            _require(abs(value) < 1 << 1000, f"{field.name} must be a finite number")
            object.__setattr__(config, field.name, float(value))  # 3 means 3.0
        elif not _fits(value, field.type):
            raise ValueError(f"{field.name} must be {_in_words(field.type)}, got {value!r}")


def _fits(value: object, kind: Any) -> bool:
    if get_origin(kind) is Literal:
        return any(type(value) is type(option) and value == option for option in get_args(kind))  # True is no 1
    if get_origin(kind) in (Union, types.UnionType):
        return any(_fits(value, option) for option in get_args(kind))
    if kind is float:
        return isinstance(value, float) and math.isfinite(value)
    if kind is str:
        return _is_unicode(value)
    return isinstance(value, kind) and not (isinstance(value, bool) and kind is not bool)


def _in_words(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(map(str, get_args(kind)))
    if get_origin(kind) in (Union, types.UnionType):
        return " or ".join(_in_words(option) for option in get_args(kind))
    words = {int: "a whole number", float: "a finite number", str: "text in Unicode", bool: "true or false"}
    return words.get(kind, "left out")


def _is_unicode(value: object) -> bool:
    """Whether it is text that can be written: the name of a file may hold bytes that are none."""
    return isinstance(value, str) and not any("\ud800" <= character <= "\udfff" for character in value)


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        # JSON's escapes are TOML's too, but for one character that JSON does not mind.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)
