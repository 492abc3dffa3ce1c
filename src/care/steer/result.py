"""What came of steering: by family of augmentations, beside the alternatives."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from care.evaluate.effects.effect import HARDLY, Spread
from care.steer.canonical import Canonicalized, canonical_table
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
class Unexplained(Spread):
    """What share of its effect is left unexplained, ‖f̂ − F_a‖² / ‖F_a − F‖², for each of the augmentations a.

    `effects` are ‖F_a − F‖² / n. A share is that of noise where the effect is small, and a mean of shares is ruled by
    those: to be read is the `pooled` one.
    """

    effects: tuple[float, ...]

    @property
    def pooled(self) -> float:
        """Σ_a ‖f̂ − F_a‖² / Σ_a ‖F_a − F‖², NaN if no augmentation moved anything."""
        known = [(v, e) for v, e in zip(self.values, self.effects, strict=True) if not math.isnan(v)]
        return sum(v * e for v, e in known) / sum(e for _, e in known) if known else math.nan

    def __str__(self) -> str:
        return number(self.pooled) if self.known else "invariant" if self.values else "–"


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
    ratio: Mapping[str, Unexplained]
    composition: Mapping[str, Unexplained]
    ranks: Mapping[str, Mapping[str, float]]

    def sentence(self, family: str) -> str:
        """How near to the oracle steering comes, and whether the family can be rotations at all."""
        oracle, steering = self.ratio[ORACLE].pooled, self.ratio[STEERING].pooled
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
        """All values, and the pooled ones; null where an augmentation moved nothing."""
        found: dict[str, Any] = {"moved": _values(self.moved)}
        for name, spreads in (("ratio", self.ratio), ("composition", self.composition)):
            found[name] = {key: _values(s) for key, s in spreads.items()}
            found[f"{name}_pooled"] = {key: None if math.isnan(s.pooled) else s.pooled for key, s in spreads.items()}
            found[f"{name}_effects"] = list(next(iter(spreads.values())).effects) if spreads else []
        return {**found, "ranks": {key: dict(v) for key, v in self.ranks.items()}}


@dataclass(frozen=True)
class SteeringResult:
    """Steering, measured: `print(result)`, `result.figure()`, `result.to_json()`.

    `order` is 2 where products of coordinates turn, too. `milliseconds` are those of one query: an embedding and an
    augmentation that was not asked for before. Those of the oracle are for solving Wahba's problem alone; embedding the
    images that it needs comes on top.
    """

    model: str
    output: str
    policy: str
    images: int
    dimension: int
    rank: int
    order: int
    families: Mapping[str, Steered]
    milliseconds: Mapping[str, float]
    canonical: Mapping[str, Canonicalized] = field(default_factory=dict)

    def table(self) -> str:
        """What is left unexplained, how the views of an image are ranked, and what is known of the undone."""
        about = f"{self.model} ({self.output}): {self.images:,} images, {self.policy}, d = {self.dimension}"
        about += ", second order" if self.order == 2 else ""
        header = ("family", "moved by", *(f"ratio {m}" for m in MAPS), *(f"composition {m}" for m in MAPS))
        rows = [(name, *_cells(steered)) for name, steered in self.families.items()]
        measures = {"mrr": "MRR", "hit_at_1": "H@1", "hit_at_5": "H@5"}
        ranked = [
            (n, *(f"{s.ranks[m][k]:.3f}" for k in measures for m in RANKED))
            for n, s in self.families.items()
            if s.ranks
        ]
        titles = ("family", *(f"{words} {m}" for words in measures.values() for m in RANKED))
        tables = [text_table(about, header, rows), text_table("the views of an image, ranked", titles, ranked)]
        return "\n\n".join(tables + ([canonical_table(self.canonical)] if self.canonical else []))

    def sentences(self) -> list[str]:
        """One per family, one per family that was undone, and one on the time."""
        times = ", ".join(f"{name} {number(value)} ms" for name, value in self.milliseconds.items())
        steered = [steered.sentence(name) for name, steered in self.families.items()]
        return [*steered, *(found.sentence(name) for name, found in self.canonical.items()), f"one query: {times}."]

    def __str__(self) -> str:
        return "\n\n".join([self.table(), "\n".join(self.sentences())])

    @property
    def reacts(self) -> bool:
        """Whether any augmentation moved anything: there is nothing to draw otherwise."""
        return any(steered.ratio[ORACLE].known for steered in self.families.values())

    def figure(self) -> "Figure":
        """The held-out ratios by family; ValueError if the model does not react to any."""
        from care.report import steering_figure  # matplotlib takes a while to load

        found = {family: steered.to_json() for family, steered in self.families.items()}
        ratios, pooled = ({f: record[name] for f, record in found.items()} for name in ("ratio", "ratio_pooled"))
        return steering_figure(ratios, pooled, self.model)

    def to_json(self) -> dict[str, Any]:
        """Everything, ready for `json.dump`."""
        names = ("model", "output", "policy", "images", "dimension", "rank", "order")
        families = {name: steered.to_json() for name, steered in self.families.items()}
        about = {name: getattr(self, name) for name in names}
        canonical = {name: found.to_json() for name, found in self.canonical.items()}
        times = {"milliseconds": dict(self.milliseconds)}
        return {**about, "families": families, "canonical": canonical, **times, "in_words": self.sentences()}


def _cells(steered: Steered) -> list[str]:
    ratios = [str(steered.ratio[m]) for m in MAPS]
    return [str(steered.moved), *ratios, *(str(steered.composition[m]) for m in MAPS)]


def _values(spread: Spread) -> list[float | None]:
    return [None if math.isnan(value) else value for value in spread.values]


def _percent(share: float) -> str:
    return f"{100 * max(0.0, share):.0f} %"
