"""A trial: one training with its evaluation, and what is kept of it."""

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from care.atomic_files import make_folder, write_atomically
from care.evaluate import Evaluation, Settings
from care.evaluate.comparison.quantities import find_quantity
from care.train import Config

# How a run is computed, not what: a trial is the same with or without them.
HOW = ("device", "compile", "graph", "deterministic")
DIGITS = 6  # significant ones, of the numbers that are kept


@dataclass(frozen=True)
class Trial:
    """A configuration to train with, and how thoroughly to look at the result.

    `label` is what a study calls it: trials that differ in their seed alone share it.
    """

    label: str
    config: Config
    measures: Settings

    @property
    def slug(self) -> str:
        """A name for its folder, the same wherever it runs: what is readable about it, and a digest of all of it."""
        c = self.config
        loss = c.method if c.equivariance == 0 else f"care-{c.method}-{c.equivariance:.3g}"
        return f"{Path(c.data).name}-{c.model}-{loss}-{c.epochs}-seed{c.seed}-{self._digest()[:8]}"

    def _digest(self) -> str:
        """Of what is not at its default: a setting that a later version adds does not make it another trial."""
        what = {name: value for name, value in _chosen(self.config).items() if name not in HOW}
        policy = self.config.measured_policy
        under = {} if policy == self.config.chunk_policy else {"measured under": policy}
        text = json.dumps({**what, **under, "measures": _chosen(self.measures)}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def settings(self) -> dict[str, Any]:
        """The configuration as far as it decides what is learned."""
        return {name: value for name, value in dataclasses.asdict(self.config).items() if name not in HOW}


@dataclass(frozen=True, eq=False)
class Outcome:
    """What came of a trial. The evaluation has its arrays only where the trial was carried out.

    `made` says with what and how long: versions, hardware, seconds. `run` is its folder, if it is here.
    """

    trial: Trial
    evaluation: Evaluation
    log: list[dict[str, Any]]
    made: Mapping[str, Any]
    run: Path | None = None

    def value(self, group: str, name: str) -> float | None:
        """One of the quantities of `care compare`, such as ("backbone", "γ_f").

        The group "equivariant" is the equivariant part of a split embedding, or else the whole embedding.
        """
        quantity = find_quantity(self.evaluation, group, name)
        return None if quantity is None else quantity.value

    def save(self, folder: Path) -> None:
        """Keep everything but the arrays, as JSON."""
        make_folder(folder)
        record = {
            "settings": self.trial.settings(),
            "measures": dataclasses.asdict(self.trial.measures),
            "made": dict(self.made),
            "evaluation": self.evaluation.record,
            "log": self.log,
        }
        text = json.dumps(_short(record), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        write_atomically(folder / f"{self.trial.slug}.json", text.encode() + b"\n")


def find_outcome(trial: Trial, folder: Path, arrays: Mapping[str, Tensor]) -> Outcome | None:
    """What `Outcome.save` kept of this trial, if it was carried out."""
    file = folder / f"{trial.slug}.json"
    if not file.exists():
        return None
    try:
        record = json.loads(file.read_bytes())
        return Outcome(trial, Evaluation(record["evaluation"], arrays), record["log"], record["made"])
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{file} is damaged: remove it, and the trial is carried out again") from error


def _chosen(settings: Config | Settings) -> dict[str, Any]:
    """The fields that are not at their default."""
    fields = ((field, getattr(settings, field.name)) for field in dataclasses.fields(settings))
    return {field.name: value for field, value in fields if value != field.default}


def _short(value: Any) -> Any:
    """Without the digits that nobody reads."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, Mapping):
        return {name: _short(part) for name, part in value.items()}
    return [_short(part) for part in value] if isinstance(value, list | tuple) else value
