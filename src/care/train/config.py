"""The configuration of a run: typed, checked, saved as TOML and read back the same."""

import dataclasses
import difflib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from care.augment import ImagePolicy, policy_text
from care.objective import Choice, choose, view_plan, views_cost
from care.objective.choice import Unchecked
from care.objective.registry import NONE, REGISTERED, Kind, find, owners, setting_names
from care.train import toml_text
from care.train.default_values import OF_OPTIMIZER, head_of_new_method, with_optimizer_defaults
from care.train.initial import with_model_of_init
from care.train.settings import TrainingSettings, require

DEFAULT_CHOICE: dict[Kind, str] = {"method": "simclr", "equivariance": NONE}
# Settings of how a run is executed and watched, not of what it learns: they may change when a run is resumed.
FREE_ON_RESUME = ("device", "compile", "graph", "evaluate_every", "cache")


@dataclass(frozen=True, kw_only=True)
class Config(TrainingSettings):
    """Everything that decides what a run computes. The output folder and the loggers are not part of it.

    `Config.of(data="shapes", method="mocov2", queue=1024)` accepts the settings of the method and of the equivariance
    beside all others, as the command line does.
    """

    @classmethod
    def of(cls, **values: Any) -> "Config":
        """The configuration with these values; ValueError, one sentence, for invalid ones.

        An `ImagePolicy` is accepted for a policy, and stored as its text form.
        """
        values = {name: policy_text(v) if isinstance(v, ImagePolicy) else v for name, v in values.items()}
        chosen = {kind: values.pop(kind, default) for kind, default in DEFAULT_CHOICE.items()}
        general = {field.name for field in dataclasses.fields(cls)}
        choices: dict[str, Choice] = {}
        for kind, name in chosen.items():
            require(isinstance(name, str), f"{kind} must be a name, got {name!r}")
            theirs = setting_names(kind, name)
            taken = sorted(set(theirs) & general)
            require(not taken, f"{name} has a setting {', '.join(taken)}, a name that every run uses: rename it")
            choices[kind] = choose(kind, name, **{key: values.pop(key) for key in theirs if key in values})
        for name in set(values) - general:
            raise ValueError(_unknown(name, chosen, general))
        require("data" in values, "say what to train on: data is missing")
        return cls(**with_optimizer_defaults(with_model_of_init(values)), **choices)  # type: ignore[arg-type]

    def flat(self) -> dict[str, Any]:
        """All values by name, with the settings of the method and of the equivariance beside the others."""
        choices = {"method": self.method.name, "equivariance": self.equivariance.name}
        return {**self._general(), **choices, **self.method.flat(), **self.equivariance.flat()}

    def _general(self) -> dict[str, Any]:
        names = [field.name for field in dataclasses.fields(self) if field.name not in DEFAULT_CHOICE]
        return {name: getattr(self, name) for name in ("data", *names)}

    def replace(self, **changes: Any) -> "Config":
        """The configuration with some values changed; a new method or equivariance starts with its own defaults.

        Unless they are among the changes, a new `init` also sets the model and the stem, a new optimizer the learning
        rate and the momentum, and a new method those settings of the head that had the previous method's defaults.
        """
        values = self.flat()
        usual = head_of_new_method(values, changes)
        if changes.get("init") not in (None, self.init):
            del values["model"], values["stem"]
        if changes.get("optimizer", self.optimizer) != self.optimizer:
            values = {name: value for name, value in values.items() if name not in OF_OPTIMIZER}
        for kind, choice in (("method", self.method), ("equivariance", self.equivariance)):
            if changes.get(kind, choice.name) != choice.name:
                values = {name: value for name, value in values.items() if name not in choice.flat()}
        return Config.of(**{**values, **usual, **changes})

    @property
    def measured_policy(self) -> str:
        """The default augmentations for measuring a run.

        They are those of the equivariance loss; with a split embedding, or without an equivariance, the method's.
        """
        return self.measure_policy or (self.policy if self.equivariant_dim else self.equivariance_policy)

    @property
    def monitored_policy(self) -> str:
        """The augmentations for measuring during training: those of the equivariance, if there is one."""
        return self.measured_policy if self.equivariance.name == NONE else self.equivariance_policy

    @property
    def views_a_step(self) -> float:
        """The cost of a step, in views per sample.

        A teacher's views, which go forward only, count a third, and smaller training views in proportion to their
        pixels.
        """
        plan, method = view_plan(self, self.batch_size // self.accumulate), find("method", self.method.name)
        return self.training_pixels * views_cost(plan, method, self.method.settings)

    def to_toml(self) -> str:
        """`name = value` lines, then a table for the method and one for the equivariance; without values of None."""
        choices = (("method", self.method), ("equivariance", self.equivariance))
        tables = {kind: {"name": choice.name, **choice.flat()} for kind, choice in choices}
        return toml_text.written(self._general(), tables)

    @classmethod
    def from_toml(cls, text: str, where: str = "the configuration", unchecked: bool = False) -> "Config":
        """The configuration in `text`; for unknown names and wrong types a ValueError that says what to write.

        With `unchecked`, the settings of a method defined outside of care are not checked: loading an encoder must not
        run its code.
        """
        values = toml_text.read(text, where)
        require("data" in values, f"{where} does not say what to train on: it needs data = NAME")
        try:
            return cls._read(values, unchecked)
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from error

    @classmethod
    def _read(cls, values: dict[str, Any], unchecked: bool) -> "Config":
        """The configuration in the tables of a TOML file."""
        tables: dict[Kind, dict[str, Any]] = {}
        for kind, default in DEFAULT_CHOICE.items():
            table = values.pop(kind, default)
            tables[kind] = {"name": default, **toml_text.named_table(kind, table)}
        names = {kind: table.pop("name") for kind, table in tables.items()}
        if unchecked and any(_is_foreign(kind, name) for kind, name in names.items()):
            choices = {kind: _choice(kind, name, tables[kind]) for kind, name in names.items()}
            return cls(**values, **choices)  # type: ignore[arg-type]
        for kind, name in names.items():
            known = setting_names(kind, name)
            for key in set(tables[kind]) - set(known):
                raise ValueError(f"[{kind}]: {_unknown(key, {kind: name}, set())}")
            for key in set(values) & set(known):
                raise ValueError(f"{key} belongs in the table [{kind}]")
        return cls.of(**values, **names, **tables["method"], **tables["equivariance"])

    @classmethod
    def read(cls, file: Path) -> "Config":
        """The configuration in a file such as `config.toml`."""
        try:
            return cls.from_toml(file.read_text(encoding="utf-8-sig"), str(file))
        except UnicodeDecodeError as error:
            expected = "a configuration is a TOML file, such as a run's config.toml"
            raise ValueError(f"{file} is not text: {expected}") from error

    def differences(self, other: "Config") -> list[str]:
        """`name: ours, theirs` for each value in which two configurations differ."""
        ours, theirs = self.flat(), other.flat()
        names = dict.fromkeys((*ours, *theirs))
        pairs = ((name, ours.get(name, "nothing"), theirs.get(name, "nothing")) for name in names)
        return [f"{name}: {mine} instead of {yours}" for name, mine, yours in pairs if mine != yours]

    def obstacles(self, started: "Config") -> list[str]:
        """The differences that keep a run started with another configuration from being resumed with this one.

        Settings of execution never do. More epochs do only if the schedule or the method depends on their number.
        """
        method = find("method", self.method.name)
        depends = self.schedule != "constant" or bool(getattr(method, "depends_on_length", False))
        free = FREE_ON_RESUME + (("epochs",) if self.epochs > started.epochs and not depends else ())
        found = self.differences(started.replace(**{name: getattr(self, name) for name in free}))
        why = f", on which the {self.schedule} schedule depends" if self.schedule != "constant" else ""
        return [line + why if line.startswith("epochs: ") else line for line in found]


def _unknown(name: str, chosen: dict[Any, str], general: set[str]) -> str:
    """The error message for an unknown setting: which method has it, or which name was probably meant."""
    if others := owners(name):
        choices = " or ".join(f"{kind} {owner}" for kind, owner in others)
        return f"{name} is a setting of {choices}, not of {' with '.join(chosen.values())}"
    known = [*general, *(key for kind, choice in chosen.items() for key in setting_names(kind, choice))]
    close = difflib.get_close_matches(name, known, 1)
    return f"there is no setting {name!r}" + (f"; did you mean {close[0]!r}?" if close else "")


def _choice(kind: Kind, name: str, table: dict[str, Any]) -> Choice:
    """A choice, with checked settings unless the check needs code outside of care."""
    return Choice(name, Unchecked(table)) if _is_foreign(kind, name) else choose(kind, name, **table)


def _is_foreign(kind: Kind, name: str) -> bool:
    return name != NONE and name not in REGISTERED[kind]
