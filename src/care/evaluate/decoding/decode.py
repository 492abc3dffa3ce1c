"""What can be decoded from features: the parameters of the drawn augmentation, and the factors of generated samples."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from care.evaluate.decoding.ridge import PENALTIES, coefficient_of_determination, fit_ridge, squared_errors
from care.evaluate.decoding.targets import Target, factor_targets, parameter_targets
from care.evaluate.effects.families import Watch
from care.evaluate.observer import Embeddings, Observer
from care.randomness import generator_for


def evaluate_decoding(
    observer: Observer, clean: Embeddings, seed: int, watch: Watch
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """R² of augmentation parameters from pairs (h(x), h(a(x))), and of the factors of generated samples from h(x)."""
    samples = observer.samples
    # The random stream keeps its first name: another one would draw other augmentations than all evaluations before.
    a = observer.policy.sample(len(samples), samples.source, generator_for("cpu", seed, "sensitivity"))  # type: ignore[arg-type]
    augmented, targets = observer.augmented_each(a), parameter_targets(a.to(observer.device))
    parameters = {output: parameter_r2(H, augmented[output], targets) for output, H in clean.items()}
    watch("decoding", 1, 1)
    found: dict[str, Any] = {"decoding": {output: _finite(r2) for output, r2 in parameters.items()}, "factors": None}
    if samples.factors:
        factors = factor_targets(samples.to(observer.device))
        found["factors"] = {output: _finite(factor_r2(H, factors)) for output, H in clean.items()}
    return found, {}


def parameter_r2(
    H: Float[Tensor, "n f"],
    H_a: Float[Tensor, "n f"],
    targets: Mapping[str, Float[Tensor, " n"]],
    penalties: Sequence[float] = PENALTIES,
) -> dict[str, float]:
    """R² of the parameters of a_i, decoded from the pair [h(x_i), h(a_i(x_i))] by ridge regression, by target.

    Targets come from `parameter_targets`. Half of the rows are fitted, the other half scored.
    """
    pairs = torch.cat([H, H_a], dim=1)
    known = torch.ones(len(H), dtype=torch.bool, device=H.device)
    return factor_r2(pairs, {name: Target(y[:, None], known) for name, y in targets.items()}, penalties)


def factor_r2(
    H: Float[Tensor, "n f"], targets: Mapping[str, Target], penalties: Sequence[float] = PENALTIES
) -> dict[str, float]:
    """R² of the generative factors of sample i, decoded from h(x_i) by ridge regression, by target.

    Targets come from `factor_targets`; rows in which a target is not known are left out. A target of several columns,
    such as cos and sin of an angle, has one R²: the sums run over its columns too.
    """
    # The decomposition of the features is the expensive part: targets that are known in the same rows share it.
    together: dict[bytes, list[str]] = defaultdict(list)
    for name, target in targets.items():
        if not len(target.values) == len(target.known) == len(H):
            raise ValueError(f"target {name!r} must have one row for each of {len(H)} features")
        together[target.known.cpu().numpy().tobytes()].append(name)
    scores: dict[str, float] = {}
    for names in together.values():
        scores |= _score(H, {name: targets[name] for name in names}, penalties)
    return {name: scores[name] for name in targets}


def _score(H: Float[Tensor, "n f"], targets: dict[str, Target], penalties: Sequence[float]) -> dict[str, float]:
    """R² of targets that are known in the same rows."""
    rows = next(iter(targets.values())).known.nonzero()[:, 0]
    fit, score = (rows[half] for half in _halves(len(rows), rows.device))
    Y = torch.cat([target.values for target in targets.values()], dim=1).double()
    predicted = fit_ridge(H[fit], Y[fit], penalties).predict(H[score])
    widths = [target.values.shape[1] for target in targets.values()]
    error, variance = (
        torch.stack([columns.sum() for columns in values.split(widths)])
        for values in squared_errors(Y[score], predicted)
    )
    return dict(zip(targets, coefficient_of_determination(error, variance).tolist(), strict=True))


def _halves(n: int, device: torch.device) -> tuple[Int[Tensor, " a"], Int[Tensor, " b"]]:
    """Every other row of a fixed shuffle, and the rest.

    Shuffled because rows can be periodic: the classes of `shapes` alternate, so its even rows hold only half of them.
    """
    order = torch.randperm(n, generator=torch.Generator().manual_seed(0)).to(device)
    return order[0::2], order[1::2]


def _finite(scores: dict[str, float]) -> dict[str, float | None]:
    return {name: value if math.isfinite(value) else None for name, value in scores.items()}
