"""A trial: one training with its evaluation, and the record that is saved of it."""

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import Tensor

from care.atomic_files import make_folder, write_atomically
from care.evaluate import Evaluation, EvaluationSettings, Transfer
from care.evaluate.comparison.quantities import ACTED_ON, CONTRASTED, acted_on, contrasted, quantities
from care.evaluate.transfer.result import TRANSFER_TO
from care.train import Config

# Settings that change how a run is computed, not its result: they do not identify a trial.
HOW = ("device", "compile", "graph", "deterministic", "activation_checkpointing", "cache")
# Settings of training that did not exist for the first trials, with the values that these were trained with.
LATER = {
    "views": 2, "contrast": "own", "symmetric": False, "equivariance_fraction": 1.0, "decoder": "cpu",
    "head_last_batchnorm": False, "equivariant_depth": 2, "stop_gradient": False, "augself_weight": 0.0,
    "prediction_width": 512, "essl_weight": 0.0, "turned_fraction": 1.0, "equimod_weight": 0.0,
    "equimod_from": "image",
}  # fmt: skip
# Settings that mean nothing with a weight of 0, which the first trials had.
OF_WEIGHTS = {"equimod_weight": ("equimod_temperature", "equimod_from", "augmentation_width")}
SINCE = ("neighbors", "temperature", "projections")  # settings of measuring that did not exist for the first trials
DIGITS = 6  # significant digits of the numbers that are saved


@dataclass(frozen=True)
class Trial:
    """A configuration to train with, and how thoroughly to evaluate the result.

    `label` is its name in a study; trials that differ only in their seed share it. `transfer` names data sets to which
    its features are transferred if they are prepared; it does not identify the trial.
    """

    label: str
    config: Config
    measures: EvaluationSettings
    transfer: tuple[str, ...] = ()

    @property
    def slug(self) -> str:
        """A name for its folder, the same on every machine: its main settings, and a digest of all settings."""
        c, values = self.config, self.config.flat()
        choices = [choice.name for choice in (c.equivariance, c.method) if choice.name != "none"]
        weight = [f"{values['care_weight']:.3g}"] if "care_weight" in values else []
        words = (Path(c.data).name, c.model, *choices, *weight, str(c.epochs), f"seed{c.seed}", self._digest()[:8])
        return "-".join(words)

    def _digest(self) -> str:
        """A hash of all settings, so that a changed default makes another trial."""
        return hashlib.sha256(json.dumps(self.record(), sort_keys=True).encode()).hexdigest()

    def record(self) -> dict[str, Any]:
        """The settings of training that decide what is learned, and those of measuring, as JSON values.

        Settings that are None are left out, as in TOML, as are those in `LATER` at their old value and those that mean
        nothing: so a setting that is added later does not change the identity of an old trial.
        """
        values = self.config.flat()
        useless = {name for weight, names in OF_WEIGHTS.items() if not values.get(weight) for name in names}
        settings = {
            name: value
            for name, value in values.items()
            if name not in (*HOW, *useless) and value not in (None, LATER.get(name))
        }
        return {"settings": settings, "measures": _measures(self.measures)}


@dataclass(frozen=True, eq=False)
class Outcome:
    """The outcome of a trial. The evaluation has its arrays only on the machine that ran the trial.

    `made` has the versions, the hardware and the seconds. `run` is the run folder, if it is on this machine. `transfer`
    is None if no data set for it was prepared.
    """

    trial: Trial
    evaluation: Evaluation
    log: list[dict[str, Any]]
    made: Mapping[str, Any]
    run: Path | None = None
    transfer: Transfer | None = None

    def value(self, group: str, name: str) -> float | None:
        """One of the quantities of `care compare`, such as ("backbone", "γ_f"), (ACTED_ON, "γ_f") or ("transfer to
        flowers102", "all labels")."""
        if group.startswith(TRANSFER_TO):
            return self._transferred(group.removeprefix(TRANSFER_TO), name)
        return self._measured.get((group, name))

    @cached_property
    def _measured(self) -> dict[tuple[str, str], float | None]:
        """All quantities by group and name, computed once: tables ask for them one by one."""
        found = (*quantities(self.evaluation), *acted_on(self.evaluation), *contrasted(self.evaluation))
        return {(quantity.group, quantity.name): quantity.value for quantity in found}

    def _transferred(self, data: str, name: str) -> float | None:
        if self.transfer is None or data not in self.transfer.data:
            return None
        accuracy, _ = self.transfer.scores(data).get(name, (None, None))
        return accuracy

    def dimension(self, group: str) -> int | None:
        """The dimension of the embeddings that the quantities of a group are measured on."""
        named = {ACTED_ON: self.evaluation.equivariant_output, CONTRASTED: self.evaluation.invariant_output}
        output = named.get(group, group)
        measured: Mapping[str, Any] = self.evaluation.record["measurements"].get(output, {})
        return measured.get("dimension")

    def save(self, folder: Path) -> None:
        """Save everything but the arrays as JSON."""
        make_folder(folder)
        record = {
            **self.trial.record(),
            "made": dict(self.made),
            "evaluation": self.evaluation.record,
            "log": self.log,
            **({} if self.transfer is None else {"transfer": self.transfer.record}),
        }
        text = json.dumps(_short(record), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        write_atomically(folder / f"{self.trial.slug}.json", text.encode() + b"\n")


def find_outcome(trial: Trial, folder: Path, arrays: Mapping[str, Tensor]) -> Outcome | None:
    """Load the outcome of this trial that `Outcome.save` wrote, if there is one."""
    file = folder / f"{trial.slug}.json"
    if not file.exists():
        return None
    try:
        record = json.loads(file.read_bytes())
        transfer = Transfer(record["transfer"], {}) if "transfer" in record else None
        evaluation = Evaluation(record["evaluation"], arrays)
        found = Outcome(trial, evaluation, record["log"], record["made"], transfer=transfer)
        kept = {part: record[part] for part in ("settings", "measures")}
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{file} is damaged: remove it, and the trial is run again") from error
    if kept != _short(trial.record()):
        raise ValueError(f"{file} was made with other settings than its name says: remove it, or give it its own name")
    return found


def _measures(measures: EvaluationSettings) -> dict[str, Any]:
    """The settings of measuring in the form that the first saved trials have, whose names are digests of it.

    Settings that were added later are left out, so that old trials are still found; their tables lack what was not
    measured then.
    """
    # In the first trials, `logistic` was a penalty, used only without a probe.
    logistic = 1.0 if measures.logistic and measures.probe == "none" else None
    values = {k: v for k, v in dataclasses.asdict(measures).items() if k not in SINCE} | {"logistic": logistic}
    return {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}


def _short(value: Any) -> Any:
    """Round all numbers to `DIGITS` significant digits."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, Mapping):
        return {name: _short(part) for name, part in value.items()}
    return [_short(part) for part in value] if isinstance(value, list | tuple) else value
