"""The classifier of the transfer protocol: a logistic regression whose penalty is chosen on validation rows."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jaxtyping import Bool, Float, Int, Int64
from torch import Tensor

from care.evaluate.features.logistic import Logistic, logistic_regression
from care.evaluate.features.tuned_logistic import tuned_logistic

FEWEST = 20  # validation rows: fewer cannot distinguish penalties


@dataclass(frozen=True, eq=False)
class Classifier:
    """A fitted classifier, its penalty, and the accuracy on the rows that chose it (None if there were too few)."""

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
    """Fit to all rows, with the penalty whose fit to the others has the highest accuracy on the `heldout` rows.

    With fewer than 20 held-out rows, the penalty is E ‖x − E x‖²: 1 for features of total variance 1.
    """
    if int(heldout.sum()) < FEWEST or len(labels[~heldout].unique()) < 2:
        penalty = _mean_square_length(features)
        return Classifier(logistic_regression(features, labels, penalty), penalty, None)
    tuned = tuned_logistic(features, labels, heldout, tick=tick)
    return Classifier(tuned.classifier, tuned.penalty, max(tuned.validation))


def _mean_square_length(features: Float[Tensor, "n d"]) -> float:
    length = features.double().var(0, correction=0).sum().item()
    return length or 1.0  # where all features are equal, no penalty matters
