"""The configuration of a run: typed, checked, saved as TOML and read back the same."""

import dataclasses
import difflib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from care.augment import ImagePolicy, policy_text
from care.objective import Choice, ObjectiveSettings, choose, policy_for, setting, view_plan, views_cost
from care.objective.build import Unchecked
from care.objective.registry import NONE, REGISTERED, Kind, find, owners, setting_names
from care.train import toml_text
from care.train.initial import follow
from care.train.usual import OF_OPTIMIZER, following, with_usual_rate

DEFAULT_CHOICE: dict[Kind, str] = {"method": "simclr", "equivariance": NONE}
# How a run is carried out and watched, not what it learns: a run may go on with others.
FREE_ON_RESUME = ("device", "compile", "graph", "evaluate_every")


@dataclass(frozen=True, kw_only=True)
class Config(ObjectiveSettings):
    """Everything that decides what a run computes. Where it is written, and how it is watched, is not part of it.

    `Config.of(data="shapes", method="mocov2", queue=1024)` takes the settings of the method and of the equivariance
    beside all others, as the command line does.
    """

    data: str = setting(
        help="Data set: shapes, chains, cifar10, … (`care data list`), or a folder: a store, or photos/, whose "
        "pictures or shards are decoded while training."
    )
    split: str = setting("train", "The split to train on.")
    limit: int | None = setting(None, "Train on the first N samples only. Default: all.", at_least=1)
    validation: int = setting(
        0,
        "Cut this many samples per class from train (of all where there are no classes) and watch those instead of the "
        "test split.",
        at_least=0,
    )
    pixels: int | None = setting(
        None,
        "Decode pictures that are not prepared to squares of this side. Default: 8/7 of a view's.",
        at_least=8,
        at_most=4096,
    )
    decoder: Literal["cpu", "gpu"] = setting(
        "cpu", "Who decodes JPEGs that are not prepared: all cores, or the GPU that trains, with nvJPEG."
    )
    init: str | None = setting(
        None,
        "Begin with the backbone of timm/NAME, timm/NAME@FILE.safetensors, a run, a .safetensors or TorchScript file. "
        "Default: random weights.",
    )
    epochs: int = setting(400, "Epochs.", at_least=1)
    batch_size: int = setting(256, "Samples per step, over all processes.", at_least=2, at_most=1 << 20)
    accumulate: int = setting(
        1,
        "Micro-batches per step: less memory, but another loss. Negatives, chunks and BatchNorm are those of a "
        "micro-batch: with 8 of a batch of 256, SimCLR has 62 negatives, not 510. The queue takes the keys of all. "
        "--tile saves memory and leaves InfoNCE as it is.",
        at_least=1,
    )
    optimizer: Literal["adam", "adamw", "sgd", "lars", "muon"] = setting("adam", "The optimizer.")
    # steps of more than this do not fit into a float32
    learning_rate: float = setting(
        1e-3,
        "The learning rate. Default: 0.001 for adam, adamw and muon, 0.06 · batch / 256 for sgd, 0.3 · batch / 256 for "
        "lars.",
        above=0,
        at_most=1e37,
    )
    weight_decay: float = setting(1e-6, "Weight decay.", at_least=0)
    norm_bias_decay: bool = setting(
        True, "Weight decay of norms and biases, too, as in the paper. lars and muon never do it."
    )
    clip_gradient: float | None = setting(
        None, "Scale the gradient down to this norm where it is longer. Default: as it is.", above=0
    )
    sgd_momentum: float = setting(0.9, "Momentum of sgd, lars and muon.", at_least=0, below=1)
    schedule: Literal["constant", "cosine", "cooldown"] = setting(
        "constant", "The learning rate over training; cooldown is constant and falls to 0 over the last quarter."
    )
    warmup_epochs: int = setting(0, "Epochs in which the learning rate grows.", at_least=0)
    ema: float = setting(
        0.0, "Keep an exponential moving average of the encoder with this momentum. 0: none.", at_least=0, below=1
    )
    seed: int = setting(0, "The same seed gives the same run on a CPU.")
    device: str = setting("auto", "auto, cpu, cuda, cuda:1, or mps; auto is a CUDA GPU, if there is one, or the CPU.")
    precision: Literal["auto", "bf16", "fp16", "fp32"] = setting(
        "auto", "auto is fp32 on a CPU, bf16 on a GPU, and fp16 on a GPU without bf16."
    )
    compile: bool | None = setting(
        None,
        "Compile the network with torch.compile: about a minute at the first start, then almost twice as fast. "
        "Default: on a GPU, for two million samples or more.",
    )
    activation_checkpointing: bool = setting(
        False, "Compute activations twice instead of keeping them: less memory, more time. Models of timm only."
    )
    graph: bool = setting(True, "On GPUs, replay the whole step as a CUDA graph, messages between processes included.")
    deterministic: bool = setting(False, "On a GPU, too, the same seed gives the same bits; slower.")
    evaluate_every: int | None = setting(
        None,
        "Measure after every so many epochs. Default: so that it takes a tenth of training at most.",
        at_least=1,
    )
    measure_policy: str | None = setting(
        None,
        "Augmentations that the run is measured under. Default: those of the equivariance loss; with a split "
        "embedding, or without an equivariance, the method's.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        _require(
            self.warmup_epochs <= self.epochs,
            f"warmup_epochs must be in [0, {self.epochs}], the number of epochs, got {self.warmup_epochs}",
        )
        _require(self.batch_size % self.accumulate == 0, f"accumulate must divide the batch of {self.batch_size}")
        _require(
            self.batch_size >= 2 * self.accumulate, f"accumulate must be at most {self.batch_size // 2}, half a batch"
        )
        _require(
            self.optimizer in ("sgd", "lars", "muon") or self.sgd_momentum == 0.9,
            f"sgd_momentum is of use to sgd, lars and muon only, not to {self.optimizer}: leave it at 0.9",
        )
        _require(
            not (self.activation_checkpointing and self.compile),
            "activation_checkpointing cannot be compiled: leave out --compile",
        )
        _require(
            not (self.activation_checkpointing and self.equivariant_layer),
            "activation_checkpointing keeps the activations of an equivariant_layer: leave out one of them",
        )
        if self.measure_policy is not None:
            policy_for(self.measure_policy)  # says whether there is one
        if not any(isinstance(choice.settings, Unchecked) for choice in (self.method, self.equivariance)):
            self.check(self.batch_size // self.accumulate)
            turned = any(view.turned for view in view_plan(self, self.batch_size // self.accumulate).views)
            _require(
                not (self.activation_checkpointing and turned),
                "activation_checkpointing is for one pass through the network, "
                f"and {self.equivariance.name} takes two: leave it out",
            )

    @classmethod
    def of(cls, **values: Any) -> "Config":
        """The configuration with these values; ValueError, one sentence, for those that make no sense.

        A policy may be given as an `ImagePolicy`, and becomes the text that stands for it.
        """
        values = {name: policy_text(v) if isinstance(v, ImagePolicy) else v for name, v in values.items()}
        chosen = {kind: values.pop(kind, default) for kind, default in DEFAULT_CHOICE.items()}
        general = {field.name for field in dataclasses.fields(cls)}
        choices: dict[str, Choice] = {}
        for kind, name in chosen.items():
            _require(isinstance(name, str), f"{kind} must be a name, got {name!r}")
            theirs = setting_names(kind, name)
            taken = sorted(set(theirs) & general)
            _require(not taken, f"{name} has a setting {', '.join(taken)}, which every run has: call it otherwise")
            choices[kind] = choose(kind, name, **{key: values.pop(key) for key in theirs if key in values})
        for name in set(values) - general:
            raise ValueError(_unknown(name, chosen, general))
        _require("data" in values, "say what to train on: data is missing")
        return cls(**with_usual_rate(follow(values)), **choices)  # type: ignore[arg-type]

    def flat(self) -> dict[str, Any]:
        """All values by name, with the settings of the method and of the equivariance beside the others."""
        choices = {"method": self.method.name, "equivariance": self.equivariance.name}
        return {**self._general(), **choices, **self.method.flat(), **self.equivariance.flat()}

    def _general(self) -> dict[str, Any]:
        names = [field.name for field in dataclasses.fields(self) if field.name not in DEFAULT_CHOICE]
        return {name: getattr(self, name) for name in ("data", *names)}

    def replace(self, **changes: Any) -> "Config":
        """The configuration with some values changed; another method or equivariance begins with its own defaults.

        Another `init` brings its model and its stem, another optimizer its learning rate and momentum, and another
        method its head, as far as that was the usual one, where these are not among the changes.
        """
        values = self.flat()
        usual = following(values, changes)
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
        """The augmentations that a run is measured under unless others are asked for.

        Those of the equivariance loss; with a split embedding those of the method, as for a run without one.
        """
        return self.measure_policy or (self.policy if self.equivariant_dim else self.equivariance_policy)

    @property
    def monitored_policy(self) -> str:
        """The augmentations that it is measured under while it trains: those of the equivariance, if there is one."""
        return self.measured_policy if self.equivariance.name == NONE else self.equivariance_policy

    @property
    def views_a_step(self) -> float:
        """How many views of a sample a step costs: those of a teacher, which go forward only, count a third."""
        method = find("method", self.method.name)
        return views_cost(view_plan(self, self.batch_size // self.accumulate), method, self.method.settings)

    def to_toml(self) -> str:
        """`name = value` lines, then a table for the method and one for the equivariance; what is None is left out."""
        choices = (("method", self.method), ("equivariance", self.equivariance))
        tables = {kind: {"name": choice.name, **choice.flat()} for kind, choice in choices}
        return toml_text.written(self._general(), tables)

    @classmethod
    def from_toml(cls, text: str, where: str = "the configuration", unchecked: bool = False) -> "Config":
        """The configuration in `text`; unknown names and wrong types are a ValueError that says what to write.

        With `unchecked`, the settings of a method that is code outside of care are taken as they are: its code is not
        run to load an encoder.
        """
        values = toml_text.read(text, where)
        _require("data" in values, f"{where} does not say what to train on: it needs data = NAME")
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
                raise ValueError(f"{key} belongs below [{kind}]")
        return cls.of(**values, **names, **tables["method"], **tables["equivariance"])

    @classmethod
    def read(cls, file: Path) -> "Config":
        """The configuration in a file such as `config.toml`."""
        try:
            return cls.from_toml(file.read_text(encoding="utf-8"), str(file))
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
        """What keeps a run that was started with another configuration from being gone on with as this one.

        How it is carried out does not, nor do more epochs where nothing else depends on how many there are.
        """
        method = find("method", self.method.name)
        depends = self.schedule != "constant" or bool(getattr(method, "depends_on_length", False))
        free = FREE_ON_RESUME + (("epochs",) if self.epochs > started.epochs and not depends else ())
        return self.differences(started.replace(**{name: getattr(self, name) for name in free}))


def _unknown(name: str, chosen: dict[Any, str], general: set[str]) -> str:
    """What to say of a setting that is not there: whose it is, or what was meant."""
    if others := owners(name):
        choices = " or ".join(f"{kind} {owner}" for kind, owner in others)
        return f"{name} is a setting of {choices}, not of {' with '.join(chosen.values())}"
    known = [*general, *(key for kind, choice in chosen.items() for key in setting_names(kind, choice))]
    close = difflib.get_close_matches(name, known, 1)
    return f"there is no setting {name!r}" + (f"; did you mean {close[0]!r}?" if close else "")


def _choice(kind: Kind, name: str, table: dict[str, Any]) -> Choice:
    """A choice whose settings are checked, unless that takes code outside of care."""
    return Choice(name, Unchecked(table)) if _is_foreign(kind, name) else choose(kind, name, **table)


def _is_foreign(kind: Kind, name: str) -> bool:
    return name != NONE and name not in REGISTERED[kind]


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)
