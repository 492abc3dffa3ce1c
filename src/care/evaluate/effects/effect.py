"""How embeddings responded to a family of augmentations, one value per augmentation and measure."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from care import geometry
from care.geometry import BilinearForm
from care.tables import number

# Embeddings that move less than this share of their length are as good as invariant: a rotation of that is of no use.
HARDLY = 0.01
# What divides by how far embeddings move. Where that is next to nothing, one augmentation would outweigh all others.
RATIOS = ("heldout_ratio", "heldout_ratio_o", "heldout_linear", "gamma")


@dataclass(frozen=True)
class Spread:
    """One value per augmentation. NaN stands for one that hardly moved anything: there is no ratio to speak of."""

    values: tuple[float, ...]

    @property
    def known(self) -> tuple[float, ...]:
        """The values that are numbers."""
        return tuple(value for value in self.values if not math.isnan(value))

    @property
    def mean(self) -> float:
        """The mean over augmentations, NaN if no augmentation moved anything."""
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
class Response:
    """The response to one family of augmentations a of which `augmentations` were drawn.

    Augmentations that move embeddings by less than 1 % of their length have no held-out ratio and no γ_f.

    With another form than the Euclidean, rotations are elements of its group, and distances ‖·‖ are those of its space.

    heldout_ratio     ‖R̂F − F_a‖² / ‖F_a − F‖², R̂ ∈ SO(d) fitted on other images: 0 exact, 1 no better than none
    unexplained       ‖R̂F − F_a‖² / ‖F_a − mean F_a‖², the same R̂: 1 no better than one point for all. Euclidean only
    heldout_ratio_o   the held-out ratio for O(d)
    heldout_linear    the same for any linear map, put back on the sphere: how low a rotation could get. Euclidean only
    composition       ‖R_b R_a F − F_{b∘a}‖² / ‖F_{b∘a} − F‖², fitted on other images
    invariance        E ‖f(a(x)) − f(x)‖
    gamma             γ_f, the paper's relative rotational equivariance
    wahba             W_f, the paper's error of the best rotation, fitted and scored on the same images; grows with √n
    gram_defect       E [B(f(a x), f(a x')) − B(f(x), f(x'))]²
    cosine            E cos∠(f(x), f(a(x)))
    cosine_variance   its variance over images
    """

    augmentations: tuple[str, ...]
    heldout_ratio: Spread
    unexplained: Spread
    heldout_ratio_o: Spread
    heldout_linear: Spread
    composition: Spread
    invariance: Spread
    gamma: Spread
    wahba: Spread
    gram_defect: Spread
    cosine: Spread
    cosine_variance: Spread

    def in_words(self) -> str:
        """What a reader should take from the numbers."""
        ratio, variance = self.heldout_ratio.mean, self.unexplained.mean
        if math.isnan(ratio) or self.invariance.mean < HARDLY:
            return "invariant"
        if ratio > 0.95:
            return "no rotation"
        left = ratio if math.isnan(variance) else max(ratio, variance)
        if left > 0.95:
            return "the same for all images"
        return "a rotation" if left < 0.05 else f"{100 * (1 - left):.0f} % a rotation"

    def to_json(self) -> dict[str, Any]:
        """All values; null where an augmentation hardly moved anything."""
        spreads = {name: getattr(self, name) for name in MEASURES}
        values = {name: [None if math.isnan(v) else v for v in spread.values] for name, spread in spreads.items()}
        return {"augmentations": list(self.augmentations), **values, "in_words": self.in_words()}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> "Response":
        """Undoes `to_json`. What an earlier version did not measure has no values."""
        values = {name: [math.nan if v is None else v for v in record.get(name, ())] for name in MEASURES}
        return cls(tuple(record["augmentations"]), **_spreads(values))


MEASURES = tuple(field.name for field in dataclasses.fields(Response) if field.name != "augmentations")


@dataclass(frozen=True, eq=False)
class Act:
    """What one augmentation did: the embeddings under it, the cross-fitted rotations, and every measure of it alone."""

    F_a: Float[Tensor, "n d"]
    R: Float[Tensor, "2 d d"]
    measures: dict[str, Float[Tensor, ""]]


def act(
    F: Float[Tensor, "n d"],
    F_a: Float[Tensor, "n d"],
    form: BilinearForm,
    principal: geometry.Principal | None = None,
) -> Act:
    """Measure one augmentation. Rotations are fitted in O(d), and again in SO(d) where one of them is a reflection.

    `principal` are the principal axes of F, if they are known: they are the same for every augmentation.
    """
    group = rotations(form)
    R_o = geometry.crossfit_rotations(F, F_a, form.group)
    again = group != form.group and bool((torch.linalg.det(R_o) < 0).any())
    R = geometry.crossfit_rotations(F, F_a, group) if again else R_o
    cosine = torch.nn.functional.cosine_similarity(F, F_a)
    measures = {
        "heldout_ratio": geometry.heldout_ratio(F, F_a, group, R),
        "heldout_ratio_o": geometry.heldout_ratio(F, F_a, form.group, R_o),
        "invariance": geometry.displacement(F, F_a, form),
        "gamma": geometry.relative_equivariance(F, F_a, form=form),
        "wahba": geometry.wahba_error(F, F_a, group),
        "gram_defect": geometry.gram_defect(F, F_a, form),
        "cosine": cosine.mean(),
        "cosine_variance": cosine.var(correction=0),
    }
    if isinstance(form, geometry.Euclidean):
        measures["unexplained"] = geometry.unexplained_variance(F, F_a, R)
        measures["heldout_linear"] = geometry.heldout_linear_ratio(F, F_a, principal)
    return Act(F_a, R, measures)


def rotations(form: BilinearForm) -> geometry.Group:
    """The group that augmentations are looked for in: SO(d), as in the paper, for the Euclidean form."""
    return "SO" if form.group == "O" else form.group


def respond(
    augmentations: Sequence[str], measures: Sequence[Mapping[str, Tensor]], compositions: Sequence[Tensor]
) -> Response:
    """The response that the measures of single augmentations, and of compositions of two, add up to."""
    columns = {name: torch.stack([row[name] for row in measures]).tolist() for name in measures[0]}
    columns["composition"] = torch.stack(list(compositions)).tolist() if compositions else []
    return Response(tuple(augmentations), **_spreads(columns))


def _spreads(columns: Mapping[str, Sequence[float]]) -> dict[str, Spread]:
    """A spread per measure, without the ratios of augmentations that hardly move anything."""
    hardly = [moved < HARDLY for moved in columns["invariance"]]
    known = {
        name: [math.nan if little else value for value, little in zip(values, hardly, strict=True)]
        for name, values in columns.items()
        if name in RATIOS and values
    }
    return {name: Spread(tuple(known.get(name, columns.get(name, ())))) for name in MEASURES}
