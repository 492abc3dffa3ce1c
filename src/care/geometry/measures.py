"""Measures of how an augmentation acts on a set of embeddings.

Every measure takes F [..., n, d] with rows f(x_i) and F_a [..., n, d] with rows f(a(x_i)), and returns one value per
leading index. None of them normalizes: pass the points of the embedding space. Points that are not finite raise
ValueError. d² is the squared distance of the `form`, or of the form that the `group` preserves: ‖x − y‖² on the sphere.

If the encoder is invariant to the augmentation, no rotation can be found: the relative measures
(`relative_equivariance`, `heldout_ratio`, `composition_error`) are then NaN, which means "invariant", never 0.
Displacements below √eps of the embedding's length are the rounding of a squared distance and count as 0.
"""

from collections.abc import Iterator

import torch
from jaxtyping import Float, Int
from torch import Tensor

from care.geometry.crossfit import crossfit_predictions, crossfit_rotations
from care.geometry.forms import BilinearForm, Euclidean, Group, Symplectic, form_of
from care.geometry.population import best_inner_products
from care.geometry.source import Source, source_of
from care.geometry.wahba import checked_points

# Pair matrices are made in blocks of at most this many entries (64 MiB in float32), so 10,000 points fit anywhere.
PAIRS_AT_ONCE = 2**24

EUCLIDEAN, SYMPLECTIC = Euclidean(), Symplectic()


def displacement(
    F: Float[Tensor, "*#batch n d"], F_a: Float[Tensor, "*#batch n d"], form: BilinearForm = EUCLIDEAN
) -> Float[Tensor, "*#batch"]:
    """E_x d(f(a(x)), f(x)), on the sphere E ‖f(a(x)) − f(x)‖: 0 for an invariant encoder."""
    F, F_a = checked_points(F, F_a)
    return form.squared_distance(F_a, F).sqrt().mean(-1)


def gram_error(
    F: Float[Tensor, "*#batch n d"], F_a: Float[Tensor, "*#batch n d"], form: BilinearForm = EUCLIDEAN
) -> Float[Tensor, "*#batch"]:
    """E_{i≠j} [B(f(a x_i), f(a x_j)) − B(f(x_i), f(x_j))]²: the paper's L_equi over all pairs of different points.

    0 = the augmentation preserves all inner products."""
    F, F_a = checked_points(F, F_a, at_least=2)
    total = F.new_zeros(F.shape[:-2], dtype=torch.float64)
    for i, j in _pairs(F):
        change = torch.where(i != j, _gram_change(F, F_a, i, form), 0)
        total += change.square().sum((-2, -1), dtype=torch.float64)
    return (total / (F.shape[-2] * (F.shape[-2] - 1))).to(F.dtype)


def relative_equivariance(
    F: Float[Tensor, "*#batch n d"],
    F_a: Float[Tensor, "*#batch n d"],
    form: BilinearForm = EUCLIDEAN,
) -> Float[Tensor, "*#batch"]:
    """γ_f = E_{i≠j} (‖f(a x_j) − f(a x_i)‖² − ‖f(x_j) − f(x_i)‖²)² / (‖f(a x_j) − f(x_j)‖² + ‖f(a x_i) − f(x_i)‖²)².

    0 = the augmentation preserves all distances. With another form, its d² replaces ‖·‖² everywhere. A skew form has no
    such distances: its numerator is (2 B(f(a x_i), f(a x_j)) − 2 B(f(x_i), f(x_j)))², which equals the one above on the
    sphere and on the hyperboloid.

    The mean is over all pairs of different points. Pairs in which neither point moved are 0/0 and left out; if almost
    nothing moved, γ_f is NaN.

    γ_f falls as the displacement grows, whatever its direction: read it beside `displacement` and `heldout_ratio`.
    """
    F, F_a = checked_points(F, F_a, at_least=2)
    length, growth = F.square().sum(-1), _growth(F, F_a, form)
    moved = form.squared_distance(F_a, F)
    total = count = F.new_zeros(F.shape[:-2], dtype=torch.float64)
    for i, j in _pairs(F):
        numerator = (growth[..., i] + growth[..., j] - 2 * _gram_change(F, F_a, i, form)).square()
        denominator = moved[..., i] + moved[..., j]
        counted = (i != j) & (denominator > torch.finfo(F.dtype).eps * (length[..., i] + length[..., j]))
        ratio = torch.where(counted, numerator / denominator.square(), 0)
        total, count = total + ratio.sum((-2, -1), dtype=torch.float64), count + counted.sum((-2, -1))
    return torch.where(_moved(F, moved), total / count, torch.nan).to(F.dtype)


def symplectic_strength(F: Float[Tensor, "*batch n d"]) -> Float[Tensor, "*batch"]:
    """(d − 1) Σ_ij ω(f_i, f_j)² / Σ_ij (‖f_i‖² ‖f_j‖² − ⟨f_i, f_j⟩²): areas measured by ω over Euclidean ones.

    1 = points in a random orientation, whatever their length and rank. 0 = the Lagrangian collapse: ω vanishes on the
    points, and with it the equivariance loss. NaN = all points lie on one line.
    """
    F, dtype = checked_points(F, F, at_least=2)[0].double(), F.dtype
    d, C = F.shape[-1], F.mT @ F
    omega = (SYMPLECTIC.gram(C) * SYMPLECTIC.matrix(d).to(C)).sum((-2, -1))  # tr(C J C Jᵀ) is the sum over all pairs
    areas = _squared(F).square() - _squared(C)
    return torch.where(areas > 1e-12 * _squared(C), (d - 1) * omega / areas, torch.nan).to(dtype)


def heldout_ratio(
    F: Float[Tensor, "*#batch n d"], F_a: Float[Tensor, "*#batch n d"], group: Group = "SO", rank: int | None = None
) -> Float[Tensor, "*#batch"]:
    """E‖R f(x) − f(a(x))‖² / E‖f(a(x)) − f(x)‖² with the best R: 0 = exactly one rotation, 1 = no rotation beats the
    identity.

    For SO(d) and O(d), the ratio is estimated for the population that the n rows are drawn from, so it can be compared
    between dimensions and numbers of images: all rows are used, and the optimism of fitting to them is corrected (see
    `best_inner_products`). R acts on the `rank` leading directions of F and F_a, at most n/4. For the other groups, it
    is Σ d²(R̂ f(x_i), f(a(x_i))) / Σ d²(f(x_i), f(a(x_i))) in the distance of the group's form, with R̂ fitted
    on the other half of the rows (`crossfit_rotations`), which is too high by about d/n.
    """
    F, F_a = checked_points(F, F_a, at_least=2)
    if form_of(group).group != "O":
        return relative_error(crossfit_predictions(F, crossfit_rotations(F, F_a, group)), F, F_a, group)
    return torch.stack([_single(x, y, group, rank) for x, y in zip(_flat(F), _flat(F_a), strict=True)]).view(
        F.shape[:-2]
    )


def _single(F: Float[Tensor, "n d"], F_a: Float[Tensor, "n d"], group: Group, rank: int | None) -> Float[Tensor, ""]:
    source = source_of(F, F_a, rank)
    return ratio_left(source, F_a, best_inner_products(source, F_a, group).rotation)


def _flat(X: Float[Tensor, "*batch n d"]) -> Float[Tensor, "b n d"]:
    return X.reshape(-1, *X.shape[-2:])


def ratio_left(source: Source, F_a: Float[Tensor, "n d"], inner_product: Float[Tensor, ""]) -> Float[Tensor, ""]:
    """E‖M f(x) − f(a(x))‖² / E‖f(a(x)) − f(x)‖² for a length-preserving map M.

    `inner_product` is E⟨M f(x), f(a(x))⟩. 0 = M is exact, 1 = no better than the identity, NaN = nothing moved.
    """
    F = source.F
    moved = (F_a - F).square().sum(-1)
    return torch.where(_moved(F, moved), squared_error(source, F_a, inner_product) / moved.sum(-1), torch.nan)


def squared_error(source: Source, F_a: Float[Tensor, "n d"], inner_product: Float[Tensor, ""]) -> Float[Tensor, ""]:
    """Σ ‖M f(x_i) − f(a(x_i))‖²: from M's inner product in the span of `source`; outside, M is the identity."""
    Y, Y_a = source.coordinates(source.F).double(), source.coordinates(F_a).double()
    within = _squared(Y) + _squared(Y_a) - 2 * Y.shape[-2] * inner_product
    outside = _squared((F_a - source.F).double()) - _squared(Y_a - Y)
    return (within.clamp_min(0) + outside.clamp_min(0)).to(F_a.dtype)


def unexplained(source: Source, F_a: Float[Tensor, "n d"], inner_product: Float[Tensor, ""]) -> Float[Tensor, ""]:
    """E‖R f(x) − f(a(x))‖² / E‖f(a(x)) − E f(a(x))‖² for the best rotation R, whose inner product is given: the
    unexplained variance, 1 − R².

    0 = exactly one rotation, 1 = no better than predicting the mean for every image. Read it beside `heldout_ratio`,
    which is 0 for an encoder that encodes only the augmentation and nothing of the image: one rotation carries its
    single point to the other. If all images have the same f(a(x)), the variance is that of rounding: far above 1, or
    NaN if a rotation carries them there.
    """
    spread, error = _squared(F_a - F_a.mean(-2, keepdim=True)), squared_error(source, F_a, inner_product)
    eps, size = torch.finfo(F_a.dtype).eps, _squared(source.F) + _squared(F_a)
    known = (spread > eps * size) | (error > eps**0.5 * size)
    return torch.where(known, error / torch.maximum(spread, eps * size), torch.nan)


def composition_error(
    F: Float[Tensor, "*#batch n d"],
    F_a: Float[Tensor, "*#batch n d"],
    F_b: Float[Tensor, "*#batch n d"],
    F_ba: Float[Tensor, "*#batch n d"],
    group: Group = "SO",
) -> Float[Tensor, "*#batch"]:
    """‖R_b R_a F − F_{b∘a}‖² / ‖F_{b∘a} − F‖²: whether rotations compose as the augmentations do (Corollary 1).

    0 = they compose exactly, 1 = no better than the identity. R_a is fitted to F → F_a and R_b to F → F_b, both on the
    half of the rows that is not scored. F_ba has rows f(b(a(x_i))).
    """
    F, F_a = checked_points(F, F_a, at_least=2)
    F_b, F_ba = checked_points(F_b, F_ba, at_least=2)
    R_ba = crossfit_rotations(F, F_b, group) @ crossfit_rotations(F, F_a, group)
    return relative_error(crossfit_predictions(F, R_ba), F, F_ba, group)


def _squared(X: Float[Tensor, "*#batch n d"]) -> Float[Tensor, "*#batch"]:
    return X.square().sum((-2, -1))


def relative_error(predicted: Tensor, F: Tensor, F_moved: Tensor, group: Group) -> Tensor:
    """Σ d²(predicted, F_moved) / Σ d²(F, F_moved), or NaN where nothing moved."""
    form = form_of(group)
    error, moved = form.squared_distance(predicted, F_moved), form.squared_distance(F, F_moved)
    return torch.where(_moved(F, moved), error.sum(-1) / moved.sum(-1), torch.nan)


def _moved(F: Tensor, squared_distance: Float[Tensor, "*#batch n"]) -> Tensor:
    """Whether the displacement is above the rounding of the points."""
    return squared_distance.sum(-1) > torch.finfo(F.dtype).eps * _squared(F)


def _pairs(F: Tensor) -> Iterator[tuple[Int[Tensor, "rows 1"], Int[Tensor, "1 n"]]]:
    """All pairs of indices in blocks: some i against every j."""
    j = torch.arange(F.shape[-2], device=F.device)
    rows_at_once = max(1, PAIRS_AT_ONCE // (F.numel() // F.shape[-1]))
    for i in j.split(rows_at_once):
        yield i[:, None], j[None, :]


def _gram_change(F: Tensor, F_a: Tensor, i: Int[Tensor, "rows 1"], form: BilinearForm) -> Float[Tensor, "*b rows n"]:
    """B(f_a(x_i), f_a(x_j)) − B(f(x_i), f(x_j)) for the rows i and all j.

    With s = f_a + f and δ = f_a − f it is (B(s_i, δ_j) + B(δ_i, s_j)) / 2: no cancellation when δ is small.
    """
    S, D = F_a + F, F_a - F
    rows = i[:, 0]
    return (form.gram(S[..., rows, :], D) + form.gram(D[..., rows, :], S)) / 2


def _growth(F: Tensor, F_a: Tensor, form: BilinearForm) -> Float[Tensor, "*b n"]:
    """B(f_a(x_i), f_a(x_i)) − B(f(x_i), f(x_i)), in the same way."""
    S, D = F_a + F, F_a - F
    return (S * form.apply_matrix(D) + D * form.apply_matrix(S)).sum(-1) / 2
