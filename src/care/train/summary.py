"""The lines that a training prints first: the chosen settings, and what follows from them for these data."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from care.data import Samples
from care.data.registry import heldout_split
from care.data.streamed.pictures import StreamedPictures
from care.objective import Choice, build_encoder, view_plan
from care.objective.registry import Kind, find
from care.objective.views import ViewPlan
from care.tables import visible, wrapped
from care.train import Config
from care.train.checks import stem_sentence
from care.train.compiling import compiles
from care.train.default_values import RATES, default_learning_rate
from care.train.job import Job
from care.train.runs import view_shape
from care.train.state import precision

# Settings that the lines below already contain. The others are listed only if they are not at their default.
SAID = {
    "data", "split", "method", "equivariance", "policy", "second_policy", "size", "train_size", "model", "stem",
    "embedding_dim", "epochs", "batch_size", "accumulate", "optimizer", "learning_rate", "schedule", "warmup_epochs",
    "weight_decay", "device", "precision", "compile", "graph", "seed", "validation", "cache",
}  # fmt: skip
WEIGHTS = {
    "care_weight": "λ", "equivariant_weight": "κ", "orbit_weight": "ω", "steering_weight": "μ", "augself_weight": "w",
}  # fmt: skip


@dataclass(frozen=True)
class Facts:
    """Quantities that follow from a configuration, the data and this machine."""

    samples: int
    input_shape: tuple[int, ...]
    classes: int
    parameters: int
    stem: str | None
    steps_per_epoch: int
    processes: int
    device: str
    precision: str
    compiled: bool
    folder: str
    streamed: bool = False
    watched: str = "test"
    cached: str = ""


def summary_text(job: Job) -> str:
    """The summary of a job, as lines of text."""
    return in_lines(summary(job.config, facts_of(job)))


def in_lines(summarized: Mapping[str, str]) -> str:
    """Format with the titles in a column on the left."""
    lines = (f"{title:<13} {visible(words)}" for title, words in summarized.items())
    return "\n".join(wrapped(line, indent=" " * 14) for line in lines)


def facts_of(job: Job) -> Facts:
    """Look at the data, and build the network without its weights."""
    config, samples = job.config, job.samples
    with torch.device("meta"):
        encoder = build_encoder(config, view_shape(config, samples.input_shape))
    return Facts(
        samples=len(samples),
        input_shape=samples.input_shape,
        classes=len(samples.classes),
        parameters=sum(parameter.numel() for parameter in encoder.parameters()),
        stem=stem_sentence(config, samples.input_shape),
        steps_per_epoch=job.steps_per_epoch,
        processes=job.processes.world_size,
        device=str(job.processes.device),
        precision=str(precision(config, job.processes)).removeprefix("torch."),
        compiled=compiles(config, job.processes, job.total_steps * config.batch_size),
        folder=str(job.run.folder),
        streamed=samples.streamed,
        watched="" if config.validation else heldout_split(config.data),
        cached=_cached(config, samples),
    )


def _cached(config: Config, samples: Samples) -> str:
    """How many training pictures are in the cache of decoded pictures, and how much room the disk has for the rest."""
    pictures = samples.stored
    whole = not view_plan(config, config.batch_size // config.accumulate).squares
    if not isinstance(pictures, StreamedPictures) or (cache := pictures.opened_cache(whole)) is None:
        return ""
    kept, all_of_them = cache.kept(samples.rows), len(samples) * cache.row_bytes / 1e9
    sizes = f"all take {all_of_them:,.1f} GB, and there is room for {cache.room() / 1e9:,.1f} more"
    return f"{config.cache}: {kept:,} of {len(samples):,} pictures are decoded already; {sizes}"


def summary(config: Config, facts: Facts) -> dict[str, str]:
    """At most thirteen lines, keyed by their titles."""
    lines = {
        "data": _data(config, facts),
        "cache": facts.cached,
        "model": f"{config.model}, {facts.parameters:,} parameters; embeddings of {_dimensions(config)}",
        "stem": facts.stem,
        "method": _choice("method", config.method),
        "equivariance": _choice("equivariance", config.equivariance),
        "views": _views(config, view_plan(config, config.batch_size // config.accumulate)),
        "steps": _steps(config, facts),
        "optimizer": _optimizer(config),
        "computed": _computed(config, facts),
        "watched": _watched(config, facts),
        "also": _settings({name: value for name, value in _unusual(config).items() if name not in SAID}),
        "written to": f"{facts.folder}; its config.toml has every setting",
    }
    return {title: words for title, words in lines.items() if words}


def _data(config: Config, facts: Facts) -> str:
    shape = " × ".join(map(str, facts.input_shape))
    what = f"pictures of {shape} pixels" if len(facts.input_shape) == 2 else f"clouds of {shape} points"
    what = f"pictures, decoded to {shape} pixels while training" if facts.streamed else what
    return f"{config.data}, {config.split}: {facts.samples:,} {what}, {_classes(facts.classes)}"


def _classes(number: int) -> str:
    return "one class, so no kNN" if number == 1 else f"{number or 'no'} classes"


def _watched(config: Config, facts: Facts) -> str:
    """The samples that the log is measured on, and that settings are thus selected on by whoever goes by the log."""
    if config.validation:
        samples = f"{config.validation:,} sample{'s' * (config.validation != 1)}"
        return f"{samples}{' of each class' if facts.classes else ''}, cut from {config.split}"
    return f"the {facts.watched} split; `validation` N watches samples cut from the training split instead"


def _dimensions(config: Config) -> str:
    part = config.equivariant_dim
    return f"{config.embedding_dim} dimensions" + (f", of which {part} are equivariant" if part else "")


def _choice(kind: Kind, choice: Choice) -> str:
    """A name with its settings; for an equivariance, which has many, only its weights and non-default settings."""
    values, found = choice.flat(), find(kind, choice.name)
    if kind == "equivariance" and found is not None:
        usual = {field.name: field.default for field in dataclasses.fields(found.Settings)}
        shown = {"chunks", *WEIGHTS, *(name for name in values if name.endswith("_weight"))}
        values = {name: value for name, value in values.items() if (value and name in shown) or value != usual[name]}
    return f"{choice.name}: {_settings(values)}" if values else choice.name


def _views(config: Config, plan: ViewPlan) -> str:
    """How many views there are, and whether the method, the equivariance or both use them."""
    size = getattr(plan.views[0].policy, "size", None)
    turned = {position for position, view in enumerate(plan.views) if view.turned}
    method, equivariance = set(plan.method), set(plan.equivariance) - turned
    own, theirs = " and ".join(filter(None, (config.policy, config.second_policy))), config.equivariance_policy
    kinds = (
        (method - equivariance, own, config.method.name),
        (
            method & equivariance,
            own if 0 in equivariance else theirs,
            f"{config.method.name} and {config.equivariance.name}",
        ),
        (equivariance - method, theirs, config.equivariance.name),
        (turned, f"{own} in four turns", config.equivariance.name),
    )
    parts = [f"{len(positions)} of {policy} for {whose}" for positions, policy, whose in kinds if positions]
    side = view_shape(config, (0,))[0]
    later = f" (later {side} × {side})" if size and side != size else ""
    pixels = f", {size} × {size} pixels{later}" if size else ""
    return f"{len(plan.views)} of each sample{pixels}: {', '.join(parts)}"


def _steps(config: Config, facts: Facts) -> str:
    epochs, steps = config.epochs, facts.steps_per_epoch
    count = f"{epochs:,} epochs of {steps:,} = {epochs * steps:,}" if epochs > 1 else f"{steps:,}, one epoch"
    shared = [f"{facts.processes} processes"] if facts.processes > 1 else []
    shared += [f"{config.accumulate} micro-batches"] if config.accumulate > 1 else []
    return f"{count}, {config.batch_size:,} samples each" + (f", in {' and '.join(shared)}" if shared else "")


def _optimizer(config: Config) -> str:
    warmup = f" after {config.warmup_epochs} epochs of warmup" if config.warmup_epochs else ""
    rate = f"learning rate {config.learning_rate:g}{_rule(config)}, {config.schedule}{warmup}"
    return f"{config.optimizer}, {rate}, weight decay {config.weight_decay:g}"


def _rule(config: Config) -> str:
    """The rule behind the learning rate, if it is the usual one for the optimizer."""
    if config.learning_rate != default_learning_rate(config.optimizer, config.batch_size):
        return ""
    rate, grows = RATES[config.optimizer]
    return f" (usual for {config.optimizer}{f': {rate:g} · batch / 256' if grows else ''})"


def _computed(config: Config, facts: Facts) -> str:
    on_gpu = facts.device.startswith("cuda")
    graph = config.graph and on_gpu and facts.precision != "float16" and not config.activation_checkpointing
    ways = [word for word, used in (("compiled", facts.compiled), ("as a CUDA graph", graph)) if used]
    return ", ".join([f"on {facts.device} in {facts.precision}", *ways, f"seed {config.seed}"])


def _unusual(config: Config) -> dict[str, Any]:
    """The settings of every run that are not at their default."""
    fields = {field.name: field.default for field in dataclasses.fields(config)}
    return {name: getattr(config, name) for name in fields if getattr(config, name) != fields[name]}


def _settings(values: dict[str, Any]) -> str:
    named = ((WEIGHTS.get(name, name), value) for name, value in values.items() if value is not None)
    return ", ".join(f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}" for name, value in named)
