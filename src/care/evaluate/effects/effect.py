"""The effect of an augmentation on embeddings, and the measures of a family: a value per augmentation and measure."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from care import geometry
from care.geometry import BilinearForm
from care.tables import number

# Embeddings with a smaller displacement, relative to their length, count as invariant: there is no rotation to fit.
HARDLY = 0.01
# Measures that divide by the displacement. If it is almost 0, one augmentation would outweigh all others.
RATIOS = ("heldout_ratio", "heldout_linear", "gamma")

# Names of measures in records of earlier versions.
BEFORE = {"one_minus_r2": "unexplained"}


@dataclass(frozen=True)
class PerAugmentation:
    """One value per augmentation. A ratio is NaN for an augmentation to which the embeddings are invariant."""

    values: tuple[float, ...]

    @property
    def known(self) -> tuple[float, ...]:
        """The values that are numbers."""
        return tuple(value for value in self.values if not math.isnan(value))

    @property
    def mean(self) -> float:
        """The mean over augmentations, NaN if the embeddings are invariant to all of them."""
        return sum(self.known) / len(self.known) if self.known else math.nan

    @property
    def std(self) -> float:
        """The standard deviation over augmentations, 0 for a single one."""
        if not self.known:
            return math.nan
        squares = sum((value - self.mean) ** 2 for value in self.known)
        return math.sqrt(squares / max(1, len(self.known) - 1))

    def __str__(self) -> str:
        if not self.values:
            return "–"
        if not self.known:
            return "invariant"
        return number(self.mean) + ("" if len(self.known) == 1 else f" ± {number(self.std, 1)}")


@dataclass(frozen=True)
class FamilyMeasures:
    """How embeddings respond to a family of augmentations a; `augmentations` describes those drawn.

    An augmentation with a displacement below 1 % of the embeddings' length has no held-out ratio and no γ_f. A family
    whose compositions have such a displacement has no composition error.

    With another form than the Euclidean, rotations are elements of its group, and distances ‖·‖ are those of its space.

    heldout_ratio      E‖R f(x) − f(a(x))‖² / E‖f(a(x)) − f(x)‖² of the best rotation R: 0 = exact, 1 = no better than
                       no rotation
    unexplained        E‖R f(x) − f(a(x))‖² / Var f(a(x)), the same R: 1 = no better than the mean. Euclidean only
    heldout_linear     the ratio of the best linear map that keeps the mean length: a bound for all R. Euclidean only
    composition_error  ‖R_b R_a F − F_{b∘a}‖² / E ‖F_{b∘a} − F‖², E over the compositions, R fitted on other images
                       (divided by its own displacement, a composition that nearly undoes itself would outweigh all)
    displacement       E ‖f(a(x)) − f(x)‖: 0 = invariant
    gamma              γ_f, the paper's relative rotational equivariance
    wahba              W_f, the paper's error of the best rotation, fitted and scored on the same images; grows with √n
    gram_error         E [B(f(a x), f(a x')) − B(f(x), f(x'))]²
    cosine             E cos∠(f(x), f(a(x)))
    cosine_variance    its variance over images

    `per_image` has, for some measures, what every image adds to the mean over augmentations: their spread is the error
    over images. It is not part of the record.
    """

    augmentations: tuple[str, ...]
    heldout_ratio: PerAugmentation
    unexplained: PerAugmentation
    heldout_linear: PerAugmentation
    composition_error: PerAugmentation
    displacement: PerAugmentation
    gamma: PerAugmentation
    wahba: PerAugmentation
    gram_error: PerAugmentation
    cosine: PerAugmentation
    cosine_variance: PerAugmentation
    per_image: Mapping[str, Float[Tensor, " n"]] = dataclasses.field(default_factory=dict, compare=False, repr=False)

    def in_words(self) -> str:
        """The share of the augmentation's effect that one rotation explains, by the worse of two measures."""
        ratio, unexplained = self.heldout_ratio.mean, self.unexplained.mean
        if math.isnan(ratio) or self.displacement.mean < HARDLY:
            return "invariant"
        if ratio > 0.95:
            return "no rotation"
        left = ratio if math.isnan(unexplained) else max(ratio, unexplained)
        if left > 0.95:
            return "the same for all images"
        return "a rotation" if left < 0.05 else f"{100 * (1 - left):.0f} % a rotation"

    def to_json(self) -> dict[str, Any]:
        """All values; null for ratios of augmentations to which the embeddings are invariant."""
        spreads = {name: getattr(self, name) for name in MEASURES}
        values = {name: [None if math.isnan(v) else v for v in spread.values] for name, spread in spreads.items()}
        return {"augmentations": list(self.augmentations), **values, "in_words": self.in_words()}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> "FamilyMeasures":
        """Undoes `to_json`. Measures that an earlier version did not have are empty."""
        record = {BEFORE.get(name, name): values for name, values in record.items()}
        values = {name: [math.nan if v is None else v for v in record.get(name, ())] for name in MEASURES}
        return cls(tuple(record["augmentations"]), **_per_augmentation(values))  # type: ignore[arg-type]


MEASURES = tuple(field.name for field in dataclasses.fields(FamilyMeasures) if field.type is PerAugmentation)


@dataclass(frozen=True, eq=False)
class Effect:
    """The effect F → F_a of one augmentation, and its measures. `source` is None in geometries other than the sphere's.

    R are the cross-fitted rotations in the coordinates of the source's span, fitted on first use.
    """

    F: Float[Tensor, "n d"]
    F_a: Float[Tensor, "n d"]
    form: BilinearForm
    source: geometry.Source | None
    measures: dict[str, Float[Tensor, ""]]

    @cached_property
    def R(self) -> Float[Tensor, "2 r r"]:  # noqa: D102
        return self.fit(self.F_a)

    def fit(self, F_b: Float[Tensor, "n d"]) -> Float[Tensor, "2 r r"]:
        """The rotations from F to other points, each fitted on one half of the rows."""
        group, source = rotation_group(self.form), self.source
        if source is None:
            return geometry.crossfit_rotations(self.F, F_b, group)
        return geometry.crossfit_rotations(source.coordinates(self.F), source.coordinates(F_b), group, source.principal)

    def rotated(self, R: Float[Tensor, "2 r r"]) -> Float[Tensor, "n d"]:
        """R f(x_i) for every row, with the rotation that was fitted on the other half."""
        if self.source is None:
            return geometry.crossfit_predictions(self.F, R)
        return self.source.moved(self.F, geometry.crossfit_predictions(self.source.coordinates(self.F), R))

    def composition(self, F_b: Float[Tensor, "n d"], F_ba: Float[Tensor, "n d"]) -> Float[Tensor, "2 n"]:
        """(‖R_b R_a f − f_{b∘a}‖², ‖f_{b∘a} − f‖²) of every image."""
        predicted, form = self.rotated(self.fit(F_b) @ self.R), geometry.form_of(rotation_group(self.form))
        return torch.stack([form.squared_distance(points, F_ba) for points in (predicted, self.F)])

    def per_image(self) -> dict[str, Float[Tensor, " n"]]:
        """What every image adds to the displacement, the held-out ratio and the unexplained variance."""
        form = geometry.form_of(rotation_group(self.form))
        moved, left = (form.squared_distance(points, self.F_a) for points in (self.F, self.rotated(self.R)))
        found = {"displacement": moved.sqrt(), "heldout_ratio": linearized(left, moved)}
        if isinstance(self.form, geometry.Euclidean):
            found["unexplained"] = linearized(left, (self.F_a - self.F_a.mean(0)).square().sum(1))
        return found


def effect_of(
    F: Float[Tensor, "n d"], F_a: Float[Tensor, "n d"], form: BilinearForm, source: geometry.Source | None = None
) -> Effect:
    """The effect F → F_a of one augmentation. `source` is F with what all its fits share, if known."""
    cosine = torch.nn.functional.cosine_similarity(F, F_a)
    measures = {
        "displacement": geometry.displacement(F, F_a, form),
        "gamma": geometry.relative_equivariance(F, F_a, form=form),
        "gram_error": geometry.gram_error(F, F_a, form),
        "cosine": cosine.mean(),
        "cosine_variance": cosine.var(correction=0),
    }
    if isinstance(form, geometry.Euclidean):
        source = geometry.source_of(F, F_a) if source is None else source
        return Effect(F, F_a, form, source, measures | _rotation_measures(source, F_a))
    group = rotation_group(form)
    measures["heldout_ratio"] = geometry.heldout_ratio(F, F_a, group)
    measures["wahba"] = geometry.wahba_error(F, F_a, group)
    return Effect(F, F_a, form, None, measures)


def _rotation_measures(source: geometry.Source, F_a: Float[Tensor, "n d"]) -> dict[str, Float[Tensor, ""]]:
    """The errors of the best rotation, of the best linear map, and of the rotation fitted to the points."""
    best = geometry.best_inner_products(source, F_a)
    # W_f is over all rotations, even if there are too few points to tell which of them would fit other points.
    every = source.basis is None
    fitted = geometry.squared_error(source, F_a, best.fitted) if every else geometry.squared_wahba(source.F, F_a)
    return {
        "heldout_ratio": geometry.ratio_left(source, F_a, best.rotation),
        "unexplained": geometry.unexplained(source, F_a, best.rotation),
        "heldout_linear": geometry.ratio_left(source, F_a, best.linear),
        "wahba": fitted.sqrt(),
    }


def rotation_group(form: BilinearForm) -> geometry.Group:
    """The group of R: that of the form, but SO(d) for the Euclidean form, as in the paper."""
    return "SO" if form.group == "O" else form.group


def family_measures(
    augmentations: Sequence[str],
    measures: Sequence[Mapping[str, Tensor]],
    compositions: Sequence[Float[Tensor, "2 n"]],
    per_image: Sequence[Mapping[str, Float[Tensor, " n"]]] = (),
) -> FamilyMeasures:
    """The measures of a family, from those of its augmentations and from compositions of two of them.

    `per_image` holds `Effect.per_image` of some of the augmentations.
    """
    columns = {name: torch.stack([row[name] for row in measures]).tolist() for name in measures[0]}
    images = {name: torch.stack([row[name] for row in per_image]).nanmean(0).cpu() for name in (per_image or [{}])[0]}
    columns["composition_error"] = []
    if compositions:
        pairs = torch.stack(list(compositions))
        columns["composition_error"] = linearized(*pairs.mean(2).T).tolist()
        images["composition_error"] = linearized(*pairs.mean(0)).cpu()
    return FamilyMeasures(tuple(augmentations), per_image=images, **_per_augmentation(columns))


def linearized(errors: Float[Tensor, " units"], squares: Float[Tensor, " units"]) -> Float[Tensor, " units"]:
    """r + (e_i − r s_i) / E s for r = Σe / Σs: their mean is r, and their spread that of r to first order.

    The ratio of the sums is not upset by a unit that hardly moves, as a mean of e_i / s_i is. NaN if none moves.
    """
    mean = squares.mean()
    ratio = errors.sum() / squares.sum()
    return torch.where(mean.sqrt() < HARDLY, torch.nan, ratio + (errors - ratio * squares) / mean)


def _per_augmentation(columns: Mapping[str, Sequence[float]]) -> dict[str, PerAugmentation]:
    """A spread per measure, without the ratios of augmentations to which the embeddings are invariant."""
    invariant = [displacement < HARDLY for displacement in columns["displacement"]]
    known = {
        name: [math.nan if ignored else value for value, ignored in zip(values, invariant, strict=True)]
        for name, values in columns.items()
        if name in RATIOS and values
    }
    return {name: PerAugmentation(tuple(known.get(name, columns.get(name, ())))) for name in MEASURES}
