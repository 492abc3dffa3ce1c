"""The result of `care.measure`, as a table, a figure and JSON."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from care.evaluate.decoding.few_images import too_few_images
from care.evaluate.effects.effect import FamilyMeasures, PerAugmentation
from care.evaluate.effects.families import ALL
from care.geometry import POINTS_PER_DIRECTION
from care.tables import number, paragraphs, text_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# A verdict in words requires rotations to be fitted in directions with this share of the embeddings' variance.
ENOUGH = 0.9

COLUMNS = {
    "displacement": "displacement",
    "held-out ratio": "heldout_ratio",
    "unexplained": "unexplained",
    "any linear map": "heldout_linear",
    "composition error": "composition_error",
    "γ_f": "gamma",
    "W_f": "wahba",
    "Gram error": "gram_error",
}
COLLAPSE = {
    "rankme": "RankMe",
    "effective_rank": "effective rank",
    "alignment": "alignment",
    "gaussian_uniformity": "uniformity",
}


@dataclass(frozen=True)
class Measurement:
    """How a model's embeddings respond to augmentations: `print(m)`, `m.figure()`, `m.to_json()`.

    The measures of the whole policy are attributes, `m.heldout_ratio.mean`, `m.gamma.values`; those of single
    families are in `m.families["color"]`, each drawn alone and with probability 1. `FamilyMeasures` defines them.
    `spectrum` holds the singular values of the centered embeddings, divided by √n. If embeddings are not on the sphere,
    `length` is the mean of ‖f(x)‖; for the symplectic form, `strength` is `symplectic_strength`. `size` is the side of
    image views. On the sphere, rotations were fitted in the `rank` leading directions, which hold a `share` of the
    variance of the embeddings.

    `collapse` holds `rankme` and `effective_rank` (how many directions the embeddings use), and `alignment` and
    `gaussian_uniformity` (how far apart they are): `care.geometry` has the formulas. In records of earlier versions it
    is empty. `decoding` has, for each decoder, the R² of each parameter of the policy's augmentations, decoded from
    (f(x), f(a(x))).
    """

    model: str
    policy: str
    images: int
    dimension: int
    families: Mapping[str, FamilyMeasures]
    spectrum: tuple[float, ...]
    length: float | None = None
    strength: float | None = None
    size: int | None = None
    collapse: Mapping[str, float] = field(default_factory=dict)
    rank: int | None = None
    share: float | None = None
    decoding: Mapping[str, Mapping[str, float | None]] = field(default_factory=dict)

    @property
    def heldout_ratio(self) -> PerAugmentation:
        """The error that the best rotation leaves in the population of images: 0 = exact, 1 = no better than none."""
        return self.families[ALL].heldout_ratio

    @property
    def composition_error(self) -> PerAugmentation:
        """The error of R_b R_a as a prediction of b∘a: 0 = exact, 1 = no better than no rotation."""
        return self.families[ALL].composition_error

    @property
    def displacement(self) -> PerAugmentation:
        """E ‖f(a(x)) − f(x)‖: 0 = invariant."""
        return self.families[ALL].displacement

    @property
    def gamma(self) -> PerAugmentation:
        """The paper's γ_f."""
        return self.families[ALL].gamma

    @property
    def wahba(self) -> PerAugmentation:
        """The paper's W_f."""
        return self.families[ALL].wahba

    @property
    def gram_error(self) -> PerAugmentation:
        """E [B(f(a x), f(a x')) − B(f(x), f(x'))]²: how much augmentations change the angles between embeddings."""
        return self.families[ALL].gram_error

    def table(self) -> str:
        """The measures by family, mean ± standard deviation over augmentations, as text."""
        rows = [
            (name, self.in_words(name), *(str(getattr(family, column)) for column in COLUMNS.values()))
            for name, family in self.families.items()
        ]
        count = len(self.families[ALL].augmentations)
        views = f"views of {self.size} pixels, " if self.size else ""
        about = f"{self.images:,} images, {views}{count} augmentations of {self.policy}, {self.directions}"
        table = text_table(f"{self.model}: {about}", ("family", "in words", *COLUMNS), rows)
        return table + self._collapse() + self._fitted() + self._decoding()

    def _collapse(self) -> str:
        """The measures of collapse in a line below the table."""
        words = (f"{COLLAPSE[name]} {number(value)}" for name, value in self.collapse.items())
        line = f"{', '.join(words)} (d = {self.dimension})"
        return "\n" + paragraphs([line]) if self.collapse else ""

    def _decoding(self) -> str:
        """A table of how well a pair of embeddings predicts the augmentation between them."""
        if not self.decoding:
            return ""
        rows = [
            (name, *("–" if scores[name] is None else f"{scores[name]:.2f}" for scores in self.decoding.values()))
            for name in next(iter(self.decoding.values()))
        ]
        title = f"R² of each parameter of {self.policy} from (f(x), f(a(x))), of images that were not fitted to"
        few = too_few_images(title, self.images)
        return "\n\n" + (paragraphs([few]) if few else text_table(title, ("parameter", *self.decoding), rows))

    @property
    def directions(self) -> str:
        """d and, if not all directions were used, the number in which rotations were fitted."""
        within = "" if self.rank in (None, self.dimension) else f", rotations of the {self.rank} leading directions"
        return f"d = {self.dimension}{within}"

    @property
    def images_needed(self) -> int | None:
        """The number of images needed to fit rotations in all directions; None if there were enough.

        They are enough if the directions fitted hold 90 % of the variance.
        """
        if self.share is None or self.share >= ENOUGH:
            return None
        return POINTS_PER_DIRECTION * self.dimension

    def _fitted(self) -> str:
        """The share of the variance in the fitted directions, if not all, and the number of images that all need."""
        if self.share is None or self.rank in (None, self.dimension):
            return ""
        held = f"{100 * self.share:.0f} % of the variance"
        told = f"The {self.rank} leading directions, in which rotations were fitted, hold {held}."
        if self.images_needed is not None:
            told = (
                f"{self.images:,} images suffice to fit rotations of {self.rank} directions, which hold {held}; "
                f"all directions need {self.images_needed:,} images."
            )
        return "\n" + paragraphs([told])

    def in_words(self, family: str) -> str:
        """The effect of a family in words, or that there are too few images to tell."""
        words = self.families[family].in_words()
        few = self.images_needed is not None and words != "invariant"
        return f"too few images to tell, {self.images_needed:,} are needed" if few else words

    def __str__(self) -> str:
        return self.table()

    def figure(self) -> "Figure":
        """The measures by family as a picture."""
        from care.report import response_figure  # matplotlib takes a while to load

        return response_figure({self.model: self.values()})

    def values(self) -> dict[str, dict[str, list[float | None]]]:
        """Family → measure → one value per augmentation, None for ratios if embeddings are invariant to it."""
        words = ("augmentations", "in_words")
        records = {name: family.to_json() for name, family in self.families.items()}
        return {name: {k: v for k, v in record.items() if k not in words} for name, record in records.items()}

    def to_json(self) -> dict[str, Any]:
        """Everything, ready for `json.dump`."""
        families = {name: family.to_json() for name, family in self.families.items()}
        about = {"model": self.model, "policy": self.policy, "images": self.images, "dimension": self.dimension}
        for name, record in families.items():
            record["in_words"] = self.in_words(name)
        rest = {"length": self.length, "strength": self.strength, "size": self.size, "collapse": dict(self.collapse)}
        fitted = {"rank": self.rank, "share": self.share}
        decoding = {"decoding": {name: dict(scores) for name, scores in self.decoding.items()}}
        return {**about, "families": families, "spectrum": list(self.spectrum), **rest, **fitted, **decoding}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> "Measurement":
        """Undoes `to_json`."""
        families = {name: FamilyMeasures.from_json(family) for name, family in record["families"].items()}
        return cls(**{**record, "families": families, "spectrum": tuple(record["spectrum"])})
