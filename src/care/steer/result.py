"""How well R(θ) predicts f(a(x)) from f(x), by family of augmentations, compared with three other maps."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from care.evaluate.effects.effect import HARDLY, PerAugmentation
from care.steer.canonical import Canonicalized, canonical_table
from care.tables import number, paragraphs, text_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEARNED, PREDICTOR, PROCRUSTES, IDENTITY = "learned_rotation", "predictor", "procrustes", "identity"
MAPS = (LEARNED, PREDICTOR, PROCRUSTES)
RANKED = (IDENTITY, *MAPS)
WORDS = {LEARNED: "R(θ)", PREDICTOR: "predictor", PROCRUSTES: "Procrustes", IDENTITY: "identity"}

NO_ROTATION = 0.95  # above this held-out ratio, an augmentation does not act as a rotation
EQUAL = 1e-3  # held-out ratios that differ by less count as equal

# Why a family is not invertible, and so cannot act exactly as rotations on embeddings of the information it destroys.
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
class PooledRatio(PerAugmentation):
    """The held-out ratios ‖f̂ − F_a‖² / ‖F_a − F‖² of the augmentations a of a family.

    `weights` are the squared displacements ‖F_a − F‖² / n. The ratio of an augmentation that hardly moves embeddings is
    dominated by noise, and so is the mean of ratios: report the `pooled` ratio. 0 = exact, 1 = no better than the
    identity.
    """

    weights: tuple[float, ...]

    @property
    def pooled(self) -> float:
        """Σ_a ‖f̂ − F_a‖² / Σ_a ‖F_a − F‖², NaN if no augmentation moves embeddings."""
        known = [(v, w) for v, w in zip(self.values, self.weights, strict=True) if not math.isnan(v)]
        return sum(v * w for v, w in known) / sum(w for _, w in known) if known else math.nan

    def __str__(self) -> str:
        return number(self.pooled) if self.known else "invariant" if self.values else "–"


@dataclass(frozen=True)
class FamilyResult:
    """How well one family of augmentations is predicted, on held-out images and augmentations.

    displacement        E ‖f(a(x)) − f(x)‖
    heldout_ratio       ‖f̂ − F_a‖² / ‖F_a − F‖² of "learned_rotation" (R(θ)), "predictor" (a network) and "procrustes"
                        (a rotation per augmentation, fitted to the other half of these images); 1 for the identity
    composition_error   the same for b∘a, predicted from f(x) by the maps of a and b
    ranks               "mrr", "hit_at_1" and "hit_at_5" of these maps and of the "identity"; empty for a family
                        of one augmentation
    """

    displacement: PerAugmentation
    heldout_ratio: Mapping[str, PooledRatio]
    composition_error: Mapping[str, PooledRatio]
    ranks: Mapping[str, Mapping[str, float]]

    def sentence(self, family: str) -> str:
        """Whether the family acts as rotations at all, and how R(θ) compares with per-augmentation Procrustes."""
        best, learned = self.heldout_ratio[PROCRUSTES].pooled, self.heldout_ratio[LEARNED].pooled
        if math.isnan(best) or self.displacement.mean < HARDLY:
            displacement = number(self.displacement.mean)
            return f"{family}: the model hardly reacts (displacement {displacement}), there is nothing to steer."
        explained = f"per-augmentation Procrustes explains {_percent(1 - best)} of the squared displacement"
        explained += f" ({LOSES[family]})" if family in LOSES else ""
        if best > NO_ROTATION:
            return f"{family}: no rotations: {explained}."
        excess = learned / best - 1
        near = f"{_percent(abs(excess))} {'above' if excess > 0 else 'below'} that of Procrustes, {number(best)}"
        near = "equal to that of Procrustes" if abs(learned - best) < EQUAL else near
        return f"{family}: {explained}; the held-out ratio of R(θ) is {number(learned)}, {near}."

    def to_json(self) -> dict[str, Any]:
        """All values, the pooled ones and their weights; null if an augmentation does not move embeddings."""
        found: dict[str, Any] = {"displacement": _values(self.displacement)}
        ratios = {"heldout_ratio": self.heldout_ratio, "composition_error": self.composition_error}
        for name, maps in ratios.items():
            found[name] = {key: _values(ratio) for key, ratio in maps.items()}
            found[f"{name}_pooled"] = {key: None if math.isnan(r.pooled) else r.pooled for key, r in maps.items()}
            found[f"{name}_weights"] = list(next(iter(maps.values())).weights) if maps else []
        return {**found, "ranks": {key: dict(v) for key, v in self.ranks.items()}}


@dataclass(frozen=True)
class RotationResult:
    """The learned rotation, measured: `print(result)`, `result.figure()`, `result.to_json()`.

    `order` is 2 if the exponent has products of coordinates. `milliseconds` is the time of one query: one embedding and
    one new augmentation. For Procrustes, it is the time of the solution alone, without embedding the augmented images
    that it needs.
    """

    model: str
    output: str
    policy: str
    images: int
    dimension: int
    rank: int
    order: int
    families: Mapping[str, FamilyResult]
    milliseconds: Mapping[str, float]
    canonicalization: Mapping[str, Canonicalized] = field(default_factory=dict)

    def table(self) -> str:
        """Held-out ratios and composition errors, ranks among the views of an image, and canonicalization."""
        about = f"{self.model} ({self.output}): {self.images:,} images, {self.policy}, d = {self.dimension}"
        about += ", second order" if self.order == 2 else ""
        tables = [self._ratios(), *self._ranks()]
        if self.canonicalization:
            tables.append(canonical_table(self.canonicalization))
        return "\n\n".join([paragraphs([about]), *tables])

    def _ratios(self) -> str:
        """Both ratios, one above the other: side by side they are wider than a terminal."""
        maps, ratios, composed = [WORDS[name] for name in MAPS], [], []
        for name, family in self.families.items():
            ratios.append((name, str(family.displacement), *(str(family.heldout_ratio[m]) for m in MAPS)))
            composed.append((name, *(str(family.composition_error[m]) for m in MAPS)))
        above = text_table("held-out ratio", ("family", "displacement", *maps), ratios)
        return above + "\n\n" + text_table("composition error", ("family", *maps), composed)

    def _ranks(self) -> list[str]:
        """A table for each measure of the rank; none if every family has a single augmentation."""
        header = ("family", *(WORDS[name] for name in RANKED))
        ranked = {name: family.ranks for name, family in self.families.items() if family.ranks}
        return [
            text_table(
                f"{words} of f(a(x)) among the views of x",
                header,
                [(name, *(f"{ranks[m][measure]:.3f}" for m in RANKED)) for name, ranks in ranked.items()],
            )
            for measure, words in {"mrr": "MRR", "hit_at_1": "H@1", "hit_at_5": "H@5"}.items()
            if ranked
        ]

    def sentences(self) -> list[str]:
        """One per family, one per family that was canonicalized, and one on the time."""
        times = ", ".join(f"{WORDS[name]} {number(value)} ms" for name, value in self.milliseconds.items())
        predicted = [family.sentence(name) for name, family in self.families.items()]
        canonicalized = [found.sentence(name) for name, found in self.canonicalization.items()]
        return [*predicted, *canonicalized, f"one query: {times}."]

    def __str__(self) -> str:
        return "\n\n".join([self.table(), paragraphs(self.sentences())])

    @property
    def reacts(self) -> bool:
        """Whether any augmentation moves embeddings; otherwise there is nothing to plot."""
        return any(family.heldout_ratio[PROCRUSTES].known for family in self.families.values())

    def figure(self) -> "Figure":
        """The held-out ratios by family; ValueError if the model does not react to any."""
        from care.report import steering_figure  # matplotlib takes a while to load

        records = {name: family.to_json() for name, family in self.families.items()}
        ratios, pooled = (
            {name: {WORDS[m]: values for m, values in record[key].items()} for name, record in records.items()}
            for key in ("heldout_ratio", "heldout_ratio_pooled")
        )
        return steering_figure(ratios, pooled, self.model)

    def to_json(self) -> dict[str, Any]:
        """Everything, ready for `json.dump`."""
        names = ("model", "output", "policy", "images", "dimension", "rank", "order")
        families = {name: family.to_json() for name, family in self.families.items()}
        about = {name: getattr(self, name) for name in names}
        canonicalized = {name: found.to_json() for name, found in self.canonicalization.items()}
        measured = {"families": families, "canonicalization": canonicalized, "milliseconds": dict(self.milliseconds)}
        return {**about, **measured, "in_words": self.sentences()}


def _values(spread: PerAugmentation) -> list[float | None]:
    return [None if math.isnan(value) else value for value in spread.values]


def _percent(share: float) -> str:
    return f"{100 * max(0.0, share):.0f} %"
