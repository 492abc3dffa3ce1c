"""The classifier of the transfer protocol: a logistic regression whose penalty validation rows choose."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jaxtyping import Bool, Float, Int, Int64
from torch import Tensor

from care.evaluate.features.logistic import Logistic, logistic_regression
from care.evaluate.features.tuned_logistic import tuned_logistic

FEWEST = 20  # validation rows: fewer do not tell one penalty from another


@dataclass(frozen=True, eq=False)
class Classifier:
    """Fitted, with its penalty, and the accuracy on the rows that chose it; None where there were too few."""

    fitted: Logistic
    penalty: float
    validation: float | None

    def predict(self, features: Float[Tensor, "m d"]) -> Int64[Tensor, " m"]:
        """The most probable class of each row."""
        return self.fitted.predict(features)

    def to_json(self) -> dict[str, Any]:
        """The penalty, and how it was chosen."""
        return {"penalty": self.penalty, "validation": self.validation}


def fit_classifier(
    features: Float[Tensor, "n d"],
    labels: Int[Tensor, " n"],
    heldout: Bool[Tensor, " n"],
    tick: Callable[[int, int], None] = lambda done, total: None,
) -> Classifier:
    """Fitted to all rows, with the penalty of the highest accuracy on those of `heldout` when fitted to the others.

    With fewer than 20 of these the penalty is E ‖x − E x‖²: 1 for features of unit mean square length.
    """
    if int(heldout.sum()) < FEWEST or len(labels[~heldout].unique()) < 2:
        penalty = _mean_square_length(features)
        return Classifier(logistic_regression(features, labels, penalty), penalty, None)
    tuned = tuned_logistic(features, labels, heldout, tick=tick)
    return Classifier(tuned.classifier, tuned.penalty, max(tuned.validation))


def _mean_square_length(features: Float[Tensor, "n d"]) -> float:
    length = features.double().var(0, correction=0).sum().item()
    return length or 1.0  # where all features are equal, no penalty matters
