"""Logistic regression whose penalty is chosen on held-out training rows: a linear probe without settings to tune."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Float64, Int, Int64
from torch import Tensor

from care.evaluate.features.logistic import Logistic, checked_rows, logistic_regression
from care.evaluate.features.newton import Objective, minimize
from care.evaluate.features.probe import every_tenth

# scikit-learn's C from 1e-6 to 1e5, as in the field's transfer protocol: four values per decade, the strongest first.
PENALTIES = tuple(10.0 ** (6 - step / 4) for step in range(45))

# Each solution may leave this share of the gradient at the previous penalty's solution: a hundredth of the way from one
# penalty to the next, a quarter of a decade.
PATH_TOLERANCE, PATH_ITERATIONS = 1e-2, 30

# The path ends where a weaker penalty changes the scores of held-out rows by less than this share of them,
SETTLED = 1e-3
# or where DECLINE penalties in a row, a decade, are each worse than the best by STANDARD_ERRORS.
DECLINE, STANDARD_ERRORS = 4, 3.0


@dataclass(frozen=True, eq=False)
class TunedLogistic:
    """A classifier of raw features, the penalty it was fitted with, and the accuracy on held-out rows that chose it.

    `validation` is the accuracy at each of `penalties`, from strong to weak; both hold only the penalties tried.
    """

    classifier: Logistic
    penalty: float
    penalties: tuple[float, ...]
    validation: tuple[float, ...]

    def scores(self, features: Float[Tensor, "m d"]) -> Float64[Tensor, "m classes"]:
        """Logits of raw features; their softmax is the probability of each class."""
        return self.classifier.scores(features)

    def predict(self, features: Float[Tensor, "m d"]) -> Int64[Tensor, " m"]:
        """The most probable class of each row of raw features."""
        return self.classifier.predict(features)


@torch.no_grad()
def tuned_logistic(
    features: Float[Tensor, "n d"],
    labels: Int[Tensor, " n"],
    heldout: Bool[Tensor, " n"] | None = None,
    penalties: Sequence[float] | None = None,
    tick: Callable[[int, int], None] = lambda done, total: None,
) -> TunedLogistic:
    """The logistic regression of standardized features, with the penalty of the highest accuracy on held-out rows.

    min_{W,b} Σᵢ −log softmax(Wᵀx̂ᵢ + b)_{yᵢ} + ½ penalty ‖W‖², a sum over rows, as in scikit-learn: its C is 1/penalty.
    x̂ has mean 0 and variance 1 per feature over the rows it is fitted to; a constant feature has no weight.

    The penalty is chosen on the `heldout` rows, by default a tenth of each class, among `penalties` (default:
    PENALTIES); of equally good penalties, the strongest. Then the regression is fitted to all rows. `tick(done, total)`
    is called at every penalty.
    """
    features, labels = checked_rows(features, labels, "training")
    heldout = every_tenth(labels, "penalty") if heldout is None else heldout
    if not heldout.any() or heldout.all():
        raise ValueError("heldout must select some rows but not all: the regression is fitted to the others")
    penalties = PENALTIES if penalties is None else penalties
    if not penalties or not all(0 < penalty < float("inf") for penalty in penalties):
        raise ValueError(f"penalties must be one or more positive numbers, got {list(penalties)}")
    path, total = sorted(penalties, reverse=True), len(penalties) + 1
    scores, correct = list[Tensor](), list[Tensor]()
    for classifier in _regularization_path(features[~heldout], labels[~heldout], path):
        scores = [*scores[-1:], classifier.scores(features[heldout])]
        correct.append(scores[-1].argmax(1) == labels[heldout])
        tick(len(correct), total)
        if correct[-1].all() or _at_the_limit(scores) or _past_the_top(correct):
            break
    validation = [hits.double().mean().item() for hits in correct]
    penalty = path[validation.index(max(validation))]
    fitted = _fit(features, labels, penalty)
    tick(total, total)
    return TunedLogistic(fitted, penalty, tuple(path[: len(validation)]), tuple(validation))


def _fit(features: Float[Tensor, "n d"], labels: Int64[Tensor, " n"], penalty: float) -> Logistic:
    """The regression of standardized features, solved to its minimum, as a classifier of raw features."""
    center, unit = _standardization(features)
    fitted = logistic_regression((features.double() - center) * unit, labels, penalty)
    return _for_raw_features(fitted, center, unit)


def _for_raw_features(fitted: Logistic, center: Float64[Tensor, " d"], unit: Float64[Tensor, " d"]) -> Logistic:
    """The same scores from x as from x̂ = (x − center) · unit."""
    weight = unit[:, None] * fitted.weight
    return replace(fitted, weight=weight, bias=fitted.bias - center @ weight)


def _standardization(features: Float[Tensor, "n d"]) -> tuple[Float64[Tensor, " d"], Float64[Tensor, " d"]]:
    """Mean and inverse standard deviation of every feature; 0 instead of the latter for a constant feature."""
    X = features.double()
    deviation, center = torch.std_mean(X, 0, correction=0)
    constant = deviation <= 1e-12 * center.abs()  # the rounding of a mean of equal values
    return center, torch.where(constant, 0.0, 1 / deviation)


def _regularization_path(
    features: Float[Tensor, "n d"], labels: Int64[Tensor, " n"], penalties: Sequence[float]
) -> Iterator[Logistic]:
    """The regression at each penalty in turn, each starting from the previous solution."""
    center, unit = _standardization(features)
    present, labels = labels.unique(return_inverse=True)
    if len(present) < 2:
        raise ValueError(f"rows that are not held out must have at least two classes, got {present.tolist()}")
    X = (features.double() - center) * unit
    variance, basis = _principal(X)
    rows, Y, θ = F.pad(X @ basis, (0, 1), value=1.0), F.one_hot(labels).double(), None
    for penalty in penalties:
        # As in `logistic_regression`: with two classes, the difference of the weights is penalized.
        θ, left = _solve(rows, Y, variance, 2 * penalty if len(present) == 2 else penalty, θ)
        fitted = Logistic.of(basis @ θ[:-1], θ[-1], present, int(present[-1]) + 1, left, PATH_TOLERANCE)
        yield _for_raw_features(fitted, center, unit)


def _solve(
    rows: Float64[Tensor, "n p"],
    Y: Float64[Tensor, "n classes"],
    variance: Float64[Tensor, " r"],
    penalty: float,
    θ: Float64[Tensor, "p classes"] | None,
) -> tuple[Float64[Tensor, "p classes"], float]:
    """The minimum in principal coordinates, starting from that of a stronger penalty.

    For every penalty, the curvature at W = 0 is diagonal in these coordinates: scaling by its root is the whitening of
    `logistic_regression`.
    """
    curvature = (1 - 1 / Y.shape[1]) / Y.shape[1] * variance + penalty
    scale = F.pad(curvature.rsqrt(), (0, 1), value=1.0)[:, None]
    Z = rows * scale.mT
    objective = Objective(Z, Y, torch.diag(F.pad(penalty / curvature, (0, 1))), curved=Z.float())
    start = objective.start() if θ is None else θ / scale
    whitened, left = minimize(objective, start, PATH_TOLERANCE, PATH_ITERATIONS)
    return scale * whitened, left


def _principal(X: Float64[Tensor, "n d"]) -> tuple[Float64[Tensor, " r"], Float64[Tensor, "d r"]]:
    """The eigenvalues of XᵀX above rounding and their eigenvectors: in other directions weights stay 0."""
    eigenvalues, basis = torch.linalg.eigh(X.mT @ X)
    kept = eigenvalues > len(eigenvalues) * torch.finfo(X.dtype).eps * eigenvalues[-1]
    return eigenvalues[kept], basis[:, kept]


def _at_the_limit(scores: Sequence[Float64[Tensor, "m classes"]]) -> bool:
    """Whether the last two penalties give held-out rows the same scores, up to a constant per class.

    If the classes overlap, the weights have a limit without a penalty, and their distance from it shrinks with the
    penalty, by 10^¼ at every step: all further penalties together change the scores by little more than the last did.
    """
    if len(scores) < 2:
        return False
    before, now = (s[:, s[0].isfinite()] - s[:, s[0].isfinite()].mean(0) for s in scores)
    return bool((now - before).norm() < SETTLED * now.norm())


def _past_the_top(correct: Sequence[Bool[Tensor, " m"]]) -> bool:
    """Whether held-out accuracy is clearly past its highest: a decade of penalties lies below it by more than chance.

    Two penalties differ in the rows that only one of them gets right. If they were equally good, these rows would be
    split like tosses of a coin: lost − gained has a standard error of √(lost + gained).
    """
    if len(correct) <= DECLINE:
        return False
    best = max(correct, key=lambda hits: int(hits.sum()))
    lost = [(int((best & ~hits).sum()), int((hits & ~best).sum())) for hits in correct[-DECLINE:]]
    return all(less - more > STANDARD_ERRORS * (less + more) ** 0.5 for less, more in lost)
