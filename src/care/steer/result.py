"""What came of steering: by family of augmentations, beside the alternatives."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from care.evaluate.response import HARDLY, Spread
from care.tables import number, text_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STEERING, PREDICTOR, ORACLE, IDENTITY = "steering", "predictor", "oracle", "identity"
MAPS = (STEERING, PREDICTOR, ORACLE)
RANKED = (IDENTITY, *MAPS)

NO_ROTATION = 0.95  # a held-out ratio above this is that of no rotation
EQUAL = 1e-3  # held-out ratios that differ by less say the same

# Why a family cannot be undone, and so cannot be exactly a rotation of embeddings that know what it destroys.
LOSES = {
    "crop": "a crop loses what is outside of its box",
    "gray": "gray loses the color",
    "blur": "blur loses the details",
    "color": "colors that leave [0, 1] are clamped",
    "brightness": "what gets brighter than white is clamped",
    "contrast": "what leaves [0, 1] is clamped",
    "saturation": "what leaves [0, 1] is clamped",
}


@dataclass(frozen=True)
class Steered:
    """How well one family of augmentations is predicted, on images and augmentations that nothing was fitted to.

    moved         E ‖f(a(x)) − f(x)‖
    ratio         ‖f̂ − F_a‖² / ‖F_a − F‖² of "steering", "predictor" (a network) and "oracle" (a rotation fitted to the
                  other half of these images, for each augmentation); that of the un-steered query is 1
    composition   the same for b after a, from f(x) and the two augmentations
    ranks         "mrr", "hit_at_1" and "hit_at_5" of those and of the un-steered query ("identity"); empty where the
                  family holds one augmentation
    """

    moved: Spread
    ratio: Mapping[str, Spread]
    composition: Mapping[str, Spread]
    ranks: Mapping[str, Mapping[str, float]]

    def sentence(self, family: str) -> str:
        """How near to the oracle steering comes, and whether the family can be rotations at all."""
        oracle, steering = self.ratio[ORACLE].mean, self.ratio[STEERING].mean
        if math.isnan(oracle) or self.moved.mean < HARDLY:
            return (
                f"{family}: the model hardly reacts (it moves by {number(self.moved.mean)}), there is nothing to steer."
            )
        why = f"; {LOSES[family]}" if family in LOSES else ""
        if oracle > NO_ROTATION:
            return (
                f"{family}: no rotations here, even those fitted to each augmentation explain "
                f"{_percent(1 - oracle)} of the effect{why}."
            )
        excess = steering / oracle - 1
        near = f"{_percent(abs(excess))} {'above' if excess > 0 else 'below'} the oracle's {number(oracle)}"
        near = "as good as the oracle" if abs(steering - oracle) < EQUAL else near
        return (
            f"{family}: {_percent(1 - oracle)} a rotation by the oracle{why}; "
            f"steering leaves {number(steering)} of the effect unexplained, {near}."
        )

    def to_json(self) -> dict[str, Any]:
        """All values; null where an augmentation moved nothing."""
        spreads = {
            name: {key: _values(s) for key, s in getattr(self, name).items()} for name in ("ratio", "composition")
        }
        return {"moved": _values(self.moved), **spreads, "ranks": {key: dict(v) for key, v in self.ranks.items()}}


@dataclass(frozen=True)
class SteeringResult:
    """Steering, measured: `print(result)`, `result.figure()`, `result.to_json()`.

    `milliseconds` are those of one query: an embedding and an augmentation that was not asked for before. Those of the
    oracle are for solving Wahba's problem alone; embedding the images that it needs comes on top.
    """

    model: str
    output: str
    policy: str
    images: int
    dimension: int
    rank: int
    families: Mapping[str, Steered]
    milliseconds: Mapping[str, float]

    def table(self) -> str:
        """Two tables: what is left unexplained, and how the views of an image are ranked."""
        about = f"{self.model} ({self.output}): {self.images:,} images, {self.policy}, d = {self.dimension}"
        header = ("family", "moved by", *(f"ratio {m}" for m in MAPS), *(f"composition {m}" for m in MAPS))
        rows = [(name, *_cells(steered)) for name, steered in self.families.items()]
        measures = {"mrr": "MRR", "hit_at_1": "H@1", "hit_at_5": "H@5"}
        ranked = [
            (n, *(f"{s.ranks[m][k]:.3f}" for k in measures for m in RANKED))
            for n, s in self.families.items()
            if s.ranks
        ]
        titles = ("family", *(f"{words} {m}" for words in measures.values() for m in RANKED))
        return f"{text_table(about, header, rows)}\n\n{text_table('the views of an image, ranked', titles, ranked)}"

    def sentences(self) -> list[str]:
        """One per family, and one on the time."""
        times = ", ".join(f"{name} {number(value)} ms" for name, value in self.milliseconds.items())
        return [steered.sentence(name) for name, steered in self.families.items()] + [f"one query: {times}."]

    def __str__(self) -> str:
        return "\n\n".join([self.table(), "\n".join(self.sentences())])

    @property
    def reacts(self) -> bool:
        """Whether any augmentation moved anything: there is nothing to draw otherwise."""
        return any(steered.ratio[ORACLE].known for steered in self.families.values())

    def figure(self) -> "Figure":
        """The held-out ratios by family; ValueError if the model does not react to any."""
        from care.report import steering_figure  # matplotlib takes a while to load

        return steering_figure({family: s.to_json()["ratio"] for family, s in self.families.items()}, self.model)

    def to_json(self) -> dict[str, Any]:
        """Everything, ready for `json.dump`."""
        names = ("model", "output", "policy", "images", "dimension", "rank")
        families = {name: steered.to_json() for name, steered in self.families.items()}
        about = {name: getattr(self, name) for name in names}
        return {**about, "families": families, "milliseconds": dict(self.milliseconds), "in_words": self.sentences()}


def _cells(steered: Steered) -> list[str]:
    ratios = [str(steered.ratio[m]) for m in MAPS]
    return [str(steered.moved), *ratios, *(str(steered.composition[m]) for m in MAPS)]


def _values(spread: Spread) -> list[float | None]:
    return [None if math.isnan(value) else value for value in spread.values]


def _percent(share: float) -> str:
    return f"{100 * max(0.0, share):.0f} %"
