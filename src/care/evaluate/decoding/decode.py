"""What can be decoded from features: the parameters of the drawn augmentation, and the factors of generated samples.

R² = 1 − Σ (y − ŷ)² / Σ (y − ȳ)² on images that were not fitted: 1 = exact, 0 = no better than predicting the mean ȳ.
A fit to noise can be slightly below 0, and is reported as such. NaN means that the target is constant there.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from care.evaluate.decoding.bilinear import Pair, bilinear_predictions
from care.evaluate.decoding.network import network_predictions
from care.evaluate.decoding.r2 import r2_units
from care.evaluate.decoding.ridge import ridge_predictions
from care.evaluate.decoding.targets import Target, factor_targets, parameter_targets
from care.evaluate.embedder import Embedder, Embeddings
from care.progress import ProgressCallback
from care.randomness import generator_for

Decoder = Literal["network", "bilinear", "linear"]
# The name in an evaluation's record for the R² of each decoder, in the order of tables.
RECORDED: dict[Decoder, str] = {"network": "decoding_network", "bilinear": "decoding_bilinear", "linear": "decoding"}
PAIRED: tuple[Decoder, ...] = ("network", "linear")  # decoders whose R² can be compared image by image between models

Numbers = Mapping[str, Float[Tensor, " m"]]  # by target, a number per scored image
Predict = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]  # fitted rows, Y, known and scored rows → predictions


def evaluate_decoding(
    embedder: Embedder, clean: Embeddings, seed: int, progress: ProgressCallback
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """R² of augmentation parameters from pairs (h(x), h(a(x))), and of the factors of generated samples from h(x).

    The arrays `decoding/DECODER/OUTPUT/TARGET` have a number per scored image whose mean is the R².
    """
    samples = embedder.samples
    # The random stream keeps its first name: another name would draw other augmentations than in earlier evaluations.
    a = embedder.policy.sample(len(samples), samples.input_shape, generator_for("cpu", seed, "sensitivity"))  # type: ignore[arg-type]
    augmented, targets = embedder.augmented_each(a), parameter_targets(a.to(embedder.device))
    found: dict[str, Any] = {name: {} for name in RECORDED.values()} | {"factors": None}
    arrays: dict[str, Tensor] = {}
    for i, (decoder, output) in enumerate(((d, o) for o in clean for d in RECORDED), start=1):
        units = parameter_units((clean[output], augmented[output]), targets, decoder, seed)
        found[RECORDED[decoder]][output] = _finite(_means(units))
        if decoder in PAIRED:
            arrays |= {f"decoding/{decoder}/{output}/{name}": values.float() for name, values in units.items()}
        progress("decoding", i, len(clean) * len(RECORDED))
    if samples.factors:
        factors = factor_targets(samples.to(embedder.device))
        found["factors"] = {output: _finite(factor_r2(H, factors)) for output, H in clean.items()}
    return found, arrays


def parameter_r2(
    H: Float[Tensor, "n f"],
    H_a: Float[Tensor, "n f"],
    targets: Mapping[str, Target],
    decoder: Decoder = "network",
    seed: int = 0,
) -> dict[str, float]:
    """R² of the parameters of a_i, decoded from the pair (h(x_i), h(a_i(x_i))), by target.

    Targets come from `parameter_targets`. Decoders are a "network" on the pair, a "bilinear" form of it, and the
    "linear" ridge regression, which cannot see a rotation. Half of the rows are fitted, the other half scored.
    """
    return _means(parameter_units((H, H_a), targets, decoder, seed))


def parameter_units(pair: Pair, targets: Mapping[str, Target], decoder: Decoder, seed: int = 0) -> Numbers:
    """One number per scored image, whose mean is the R² of `parameter_r2`: see `r2_units`."""
    together, width = torch.cat(pair, dim=1), pair[0].shape[1]

    def predict(X: Tensor, Y: Tensor, known: Tensor, others: Tensor) -> Tensor:
        if decoder == "network":
            return network_predictions(X, Y, known, others, seed)
        if decoder == "bilinear":
            return bilinear_predictions(X.split(width, dim=1), Y, known, others.split(width, dim=1))
        return ridge_predictions(X, Y, known, others)

    return _units(together, targets, predict)


def factor_r2(H: Float[Tensor, "n f"], targets: Mapping[str, Target]) -> dict[str, float]:
    """R² of the generative factors of sample i, decoded from h(x_i) by ridge regression, by target.

    Targets come from `factor_targets`; rows in which a target is not known are left out. A target of several columns,
    such as cos and sin of an angle, has one R²: the sums run over its columns too.
    """
    return _means(_units(H, targets, ridge_predictions))


def _units(X: Float[Tensor, "n f"], targets: Mapping[str, Target], predict: Predict) -> Numbers:
    """Fit one half of the rows and score the other."""
    for name, target in targets.items():
        if not len(target.values) == len(target.known) == len(X):
            raise ValueError(f"target {name!r} must have one row for each of {len(X)} features")
    if not targets:
        return {}
    fit, score = _halves(len(X), X.device)
    widths = [target.values.shape[1] for target in targets.values()]
    Y = torch.cat([target.values.double() for target in targets.values()], dim=1)
    known = torch.cat([target.known[:, None].expand_as(target.values) for target in targets.values()], dim=1)
    predicted = predict(X[fit], Y[fit], known[fit], X[score]).double()
    columns = zip(Y[score].split(widths, 1), predicted.split(widths, 1), targets.values(), strict=True)
    return {name: r2_units(y, p, t.known[score]) for name, (y, p, t) in zip(targets, columns, strict=True)}


def _means(units: Numbers) -> dict[str, float]:
    return {name: values.nanmean().item() for name, values in units.items()}


def _halves(n: int, device: torch.device) -> tuple[Int[Tensor, " a"], Int[Tensor, " b"]]:
    """Every other row of a fixed shuffle, and the rest.

    Shuffled because rows can be periodic: the classes of `shapes` alternate, so its even rows hold only half of them.
    """
    order = torch.randperm(n, generator=torch.Generator().manual_seed(0)).to(device)
    return order[0::2], order[1::2]


def _finite(scores: dict[str, float]) -> dict[str, float | None]:
    return {name: value if math.isfinite(value) else None for name, value in scores.items()}
