"""The evaluation of a model: a record of numbers, and the arrays behind them."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from care.evaluate.effects.measurement import Measurement
from care.evaluate.embedder import equivariant_output, invariant_output
from care.evaluate.records import load_record, save_record

RECORD, ARRAYS = "evaluation.json", "arrays.safetensors"

# The version of the measures. 2: held-out ratios without the bias of halves, kNN with τ = 0.07, decoding by networks,
# gray masked. 3: composition errors are divided by the displacement of all compositions, no longer each by its own.
# 4: the network decodes only the residual of the linear decoder. 5: the network is mixed with the linear decoder, whose
# residual often held nothing for it to find. 6: held-out ratios are not too low where embeddings share a mean or
# clusters and no rotation explains the rest, nor for reflections. 7: nor with few images per dimension where a linear
# map is better than any rotation.
ESTIMATORS = 7

# Fields that must agree for two evaluations to be compared image by image and augmentation by augmentation, and for a
# difference between probes to come from the models.
PAIRED = (
    "data", "split", "test_images", "policy", "augmentations", "seed",
    "train_images", "probe", "probe_on", "probe_epochs", "learning_rates", "logistic", "neighbors", "temperature",
    "estimators",
)  # fmt: skip
# The values used before these became settings.
BEFORE = {"neighbors": [20, 200], "temperature": 0.5}


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The evaluation of one model. `record` is what `evaluation.json` holds.

    `arrays` holds the data for paired comparisons and pictures: which test images were classified correctly, cosines,
    and the images that each query retrieved.
    """

    record: Mapping[str, Any]
    arrays: Mapping[str, Tensor]

    @property
    def name(self) -> str:
        """The model's name."""
        return str(self.record["about"]["model"])

    @property
    def outputs(self) -> list[str]:
        """The outputs that were measured: "embedding" and "backbone"; with a split embedding also "invariant" and
        "equivariant"; "features" for an external model; "intermediate" if a layer was read."""
        return list(self.record["measurements"])

    @property
    def equivariant_output(self) -> str:
        """The output that the equivariance loss acts on: "equivariant" with a split embedding, else "embedding"."""
        return equivariant_output(self.outputs)

    @property
    def invariant_output(self) -> str:
        """The output that the method acts on: "invariant" with a split embedding, else "embedding"."""
        return invariant_output(self.outputs)

    @property
    def estimators(self) -> int:
        """The version of its measures: `ESTIMATORS`, or an earlier one."""
        families = (family for m in self.record["measurements"].values() for family in m["families"].values())
        unbiased = all("unexplained" in family for family in families)
        return int(self.record["about"].get("estimators", 2 if unbiased else 1))

    def measurement(self, output: str) -> Measurement:
        """How the embeddings at `output` respond to augmentations."""
        return Measurement.from_json(self.record["measurements"][output])

    def unlike(self, other: "Evaluation") -> list[str]:
        """The settings in which two evaluations differ but should agree: empty if they are paired."""
        ours, theirs = ({**BEFORE, "estimators": one.estimators, **one.record["about"]} for one in (self, other))
        pairs = ((name, ours[name], theirs[name]) for name in PAIRED)
        return [f"{name}: {a} for {self.name}, {b} for {other.name}" for name, a, b in pairs if a != b]

    def save(self, folder: str | Path) -> None:
        """Write `evaluation.json` and the arrays into `folder`; the first has the checksums of both."""
        save_record(Path(folder), RECORD, ARRAYS, self.record, self.arrays)

    @classmethod
    def load(cls, folder: str | Path) -> "Evaluation":
        """What `save` wrote; ValueError if any byte of it has changed."""
        return cls(*load_record(Path(folder), RECORD, ARRAYS, "evaluation", "care evaluate"))


def logistic_name(logistic: Mapping[str, Any]) -> str:
    """The name of a record's logistic regression; in older records, its penalty was fixed."""
    return "linear probe (tuned)" if "path" in logistic else "logistic regression"


def probe_name(record: Mapping[str, Any]) -> str:
    """The name of a record's linear probe, by its protocol."""
    return f"linear probe ({record['about']['probe']})"


def has_top5(record: Mapping[str, Any]) -> bool:
    """Whether top-5 says anything: of five classes or fewer, it is always 100 %. Older records have no number."""
    return bool(record["about"].get("train_classes", 6) > 5)


def per_image_accuracy(evaluation: Evaluation, classifier: str) -> Tensor | None:
    """Per test image, the share of seeds of a classifier ("probe", "knn20" …) that are correct; None without arrays."""
    correct = evaluation.arrays.get(f"correct/{classifier}")
    return None if correct is None else correct.double().reshape(-1, correct.shape[-1]).mean(0)
