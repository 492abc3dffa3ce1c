"""How well f(a(x)) can be predicted from f(x) and the augmentation a.

Predictions [V, n, d] have rows f̂(a_v(x_i)), one for each of V augmentations and n images, however they were made: by
rotations fitted on other images (`care.geometry.crossfit_predictions`), by a learned map, or by the identity
(`predict_by_identity`, f̂ = f(x)). Report `prediction_measures` of the identity, and `chance`, as baselines.
"""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from care.geometry import Euclidean

# Cosines are made in blocks of at most this many (64 MiB in float64).
PAIRS_AT_ONCE = 2**23

MEASURES = ("mrr", "hit_at_1", "hit_at_5", "parameter_error", "gain")

# Cosines closer than this are tied. They are computed in float64, where equal embeddings can differ by rounding; in
# float32, a tolerance for rounding would tie embeddings a thousandth apart.
TIE = 1e-12


@dataclass(frozen=True, eq=False)
class Prediction:
    """How close predictions come to the views they predict, as means over images and augmentations.

    The V views of an image are ranked by their cosine to the prediction. `mrr` is the mean of 1 / rank of the predicted
    view; `hit_at_1` and `hit_at_5` are how often it is among the first one and five: 1 = always first.
    `parameter_error` (PRE) compares the parameters of the predicted view with those of the nearest view of any image:
    the mean of |difference| in standard deviations, 0 = equal; None without parameters. `gain` (EquiMod) is
    cos(f(a(x)), f̂) − cos(f(a(x)), f(x)): how much better the prediction is than the identity. `per_augmentation` has
    the mean of each measure over images, `per_image` that of the ranks over augmentations.
    """

    mrr: float
    hit_at_1: float
    hit_at_5: float
    parameter_error: float | None
    gain: float | None
    per_augmentation: dict[str, Float[Tensor, " V"]]
    per_image: dict[str, Float[Tensor, " n"]]

    def to_json(self) -> dict[str, float | None]:
        """The means as plain numbers; None for those that do not exist."""
        return {name: getattr(self, name) for name in MEASURES}


def predict_by_identity(F: Float[Tensor, "n d"], V: int) -> Float[Tensor, "V n d"]:
    """f(x_i) for every augmentation: the baseline that any prediction must beat."""
    return F.expand(V, *F.shape)


def prediction_measures(
    predictions: Float[Tensor, "V n d"],
    F: Float[Tensor, "n d"],
    F_a: Float[Tensor, "V n d"],
    parameters: Float[Tensor, "V p"] | None = None,
) -> Prediction:
    """Compare the predictions with F_a, whose rows are f(a_v(x_i)).

    Tied views count as if in random order, by expected values; an invariant encoder, for which all views are tied,
    scores at `chance`. Row v of `parameters` holds the parameters of augmentation v; columns are divided by their
    standard deviation over the augmentations, and constant columns are left out.
    """
    if len(F_a) < 2:
        raise ValueError(f"ranking views needs at least 2 augmentations, got {len(F_a)}")
    for points in (predictions, F, F_a):
        if not torch.isfinite(points).all():
            raise ValueError("embeddings and predictions must be finite: they hold NaN or infinity")
    predictions, F, F_a = (Euclidean().embed(points.double()) for points in (predictions, F, F_a))
    ranks = _ranks(predictions, F_a)
    measures = {name: scores.mean(1) for name, scores in ranks.items()}
    difference = None if parameters is None else _parameter_differences(parameters)
    if difference is not None:
        measures["parameter_error"] = _nearest_error(predictions, F_a, difference)
    measures["gain"] = (F_a * (predictions - F)).sum(-1).mean(1)
    return _summary(measures, {name: scores.mean(0) for name, scores in ranks.items()})


def chance(V: int, parameters: Float[Tensor, "V p"] | None = None) -> Prediction:
    """The scores of random order: MRR (1 + 1/2 + … + 1/V) / V, H@k min(k, V) / V, and the error of a random view.

    Chance has no gain.
    """
    device = torch.device("cpu") if parameters is None else parameters.device
    none_better, all_tied = torch.zeros(V, device=device).double(), torch.full((V,), V, device=device).double()
    measures = _expected_scores(none_better, all_tied)
    difference = None if parameters is None else _parameter_differences(parameters)
    if difference is not None:
        measures["parameter_error"] = difference.mean(1)
    return _summary(measures)


def _ranks(predictions: Float[Tensor, "V n d"], F_a: Float[Tensor, "V n d"]) -> dict[str, Float[Tensor, "V n"]]:
    """MRR, H@1 and H@5 of each augmentation and image."""
    V, n, _ = F_a.shape
    scores = []
    for images in torch.arange(n, device=F_a.device).split(max(1, PAIRS_AT_ONCE // V**2)):
        cosine = torch.einsum("vid,uid->vui", predictions[:, images], F_a[:, images])
        excess = cosine - cosine.diagonal().mT[:, None, :]  # over the predicted view, u = v
        better, tied = (excess > TIE).sum(1), (excess.abs() <= TIE).sum(1)
        scores.append(_expected_scores(better.double(), tied.double()))
    return {name: torch.cat([score[name] for score in scores], dim=1) for name in scores[0]}


def _expected_scores(better: Float[Tensor, "..."], tied: Float[Tensor, "..."]) -> dict[str, Float[Tensor, "..."]]:
    """E[1 / rank], P(rank = 1) and P(rank ≤ 5) of one of `tied` views in random order, after `better` views.

    Its rank is better + 1 … better + tied with equal probability, and Σ 1/rank is a difference of digammas.
    """
    return {
        "mrr": (torch.digamma(better + tied + 1) - torch.digamma(better + 1)) / tied,
        "hit_at_1": (1 - better).clamp_min(0).minimum(tied) / tied,
        "hit_at_5": (5 - better).clamp_min(0).minimum(tied) / tied,
    }


def _nearest_error(
    predictions: Float[Tensor, "V n d"], F_a: Float[Tensor, "V n d"], difference: Float[Tensor, "V V"]
) -> Float[Tensor, " V"]:
    """E_i difference(v, u) where view u of any image is nearest to the prediction of v; the mean over ties."""
    V, n, d = F_a.shape
    points = F_a.reshape(V * n, d)
    errors = []
    for prediction, error_of in zip(predictions, difference, strict=True):
        total = F_a.new_zeros(())
        for rows in prediction.split(max(1, PAIRS_AT_ONCE // (V * n))):
            cosine = rows @ points.mT
            nearest = cosine >= cosine.amax(1, keepdim=True) - TIE
            views = nearest.view(-1, V, n).sum(2).double()
            total = total + (views @ error_of / views.sum(1)).sum()
        errors.append(total / n)
    return torch.stack(errors)


def _parameter_differences(parameters: Float[Tensor, "V p"]) -> Float[Tensor, "V V"] | None:
    """Mean over parameters of |θ_u − θ_v| / standard deviation; None when no parameter varies."""
    theta = parameters.double()
    theta = theta[:, (theta != theta[:1]).any(0)]
    if not theta.shape[1]:
        return None
    theta = theta / theta.std(0, correction=0)
    return (theta[:, None] - theta[None]).abs().mean(-1)


def _summary(measures: dict[str, Tensor], per_image: dict[str, Tensor] | None = None) -> Prediction:
    means: dict[str, Any] = {name: float(measures[name].mean()) if name in measures else None for name in MEASURES}
    return Prediction(**means, per_augmentation=measures, per_image=per_image or {})
