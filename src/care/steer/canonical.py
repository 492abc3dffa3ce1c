"""Canonicalization: what can probes still decode of the augmentation and the class after applying R(a)ᵀ?

    z = f(a(x)),    z' = R(a)ᵀ z

If every augmentation a acts as the rotation R(a), then z' = f(x), and no probe can decode a from it. Probes are trained
anew on z and on z'. R(a)ᵀ is itself a function of a: where a does not act as R(a), z' may reveal more of a than z.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from care.augment import COLOR_OPERATIONS, ImageParameters, Parameters, PointPolicy
from care.augment.naming import Policy
from care.evaluate.comparison.paired import Difference, paired_difference
from care.evaluate.decoding.r2 import r2_units
from care.evaluate.decoding.targets import parameter_targets
from care.evaluate.effects.families import ALL, Family
from care.evaluate.embedder import Embedder
from care.progress import ProgressCallback, silent
from care.randomness import derive, generator_for
from care.steer.families import every_family
from care.steer.learned_rotation import LearnedRotation
from care.steer.probing import crossfit, interval, least_squares, network
from care.tables import text_table

DRAWS = 4  # augmentations per image
ROWS_ROTATED = 512  # embeddings that are rotated at once, each by its own matrix

NOTHING = 0.05  # below this R², a probe decodes nothing

LINEAR, NETWORK, PAIR, CLASS = "linear", "network", "network given f(x)", "class"


@dataclass(frozen=True)
class ProbeScores:
    """Scores of one kind of probe on held-out images, with 95 % intervals over images.

    Probes are trained on z (`augmented`), z' (`canonical`) and f(x) (`clean`); `change` is from z to z'. A score is the
    R² of the augmentation's parameters, or the accuracy of the class: 1 = exact, R² 0 = nothing decoded.
    """

    augmented: Difference
    canonical: Difference
    clean: Difference
    change: Difference


@dataclass(frozen=True)
class Canonicalized:
    """How much of one family of augmentations canonicalization removes, by probe.

    Probes are least squares ("linear") and a small "network" on the embedding, the network on the pair with f(x)
    ("network given f(x)"), and least squares for the "class", if it is known. The hue shift of an image of unknown hue
    can only be decoded given f(x).
    """

    scores: Mapping[str, ProbeScores]

    def sentence(self, family: str) -> str:
        """The best R² before and after, and the accuracies of the class."""
        decoded = [scores for probe, scores in self.scores.items() if probe != CLASS]
        before, after = (max(getattr(s, stage).difference for s in decoded) for stage in ("augmented", "canonical"))
        words = f"the best probe decodes it with R² {_short(before)} before and {_short(after)} after"
        if max(before, after) < NOTHING:
            words = "no probe decodes it, before or after"
        if CLASS not in self.scores:
            return f"{family} canonicalized: {words}."
        stages = ("augmented", "canonical", "clean")
        accuracies = (f"{100 * getattr(self.scores[CLASS], stage).difference:.1f} %" for stage in stages)
        right = "the accuracy of the class is {} before, {} after and {} on clean images".format(*accuracies)
        return f"{family} canonicalized: {words}; {right}."

    def to_json(self) -> dict[str, Any]:
        """Every number: probe → stage → mean and interval; null where there is none."""
        return {
            probe: {stage: _known(numbers) for stage, numbers in asdict(scores).items()}
            for probe, scores in self.scores.items()
        }


def canonical_table(families: Mapping[str, Canonicalized]) -> str:
    """A row per family and probe: the score before and after, with the interval of the latter, and that of f(x)."""
    rows = [
        (family, probe, *_cells(scores, probe == CLASS))
        for family, found in families.items()
        for probe, scores in found.scores.items()
    ]
    title = "canonicalization: R² of the augmentation, accuracy of the class, decoded from"
    return text_table(title, ("family", "probe", "z", "R(a)ᵀ z", "95 %", "f(x)"), rows)


def canonicalized_families(policy: Policy) -> list[Family]:
    """Color operations one by one and crops, `DRAWS` per image; for point clouds, the whole policy."""
    if isinstance(policy, PointPolicy):
        return [family for family in every_family(policy, DRAWS) if family.name == ALL]
    return [family for family in every_family(policy, DRAWS) if family.name in (*COLOR_OPERATIONS, "crop")]


def measure_canonicalization(
    embedder: Embedder,
    output: str,
    rotation: LearnedRotation,
    families: Sequence[Family],
    seed: int = 0,
    progress: ProgressCallback = silent,
) -> dict[str, Canonicalized]:
    """Measure every family on the images of `embedder`, which must not be those that the rotation was fitted to."""
    rotation, found = rotation.to(embedder.device), {}
    F = embedder.points(embedder.clean())[output]
    for i, family in enumerate(families, start=1):
        found[family.name] = _measure_family(embedder, output, rotation, family, F, derive(seed, "canonical"))
        progress("families canonicalized", i, len(families))
    return found


@torch.no_grad()
def _measure_family(
    embedder: Embedder, output: str, rotation: LearnedRotation, family: Family, F: Float[Tensor, "n d"], seed: int
) -> Canonicalized:
    generator = generator_for("cpu", seed, "draws", family.name)
    drawn = [family.policy.sample(len(F), embedder.samples.input_shape, generator) for _ in range(family.count)]  # type: ignore[arg-type]
    augmented, canonical = [], []
    for a in drawn:
        z = embedder.points(embedder.augmented_each(a))[output]
        augmented.append(z)
        canonical.append(canonicalize_rows(rotation, z, a))
    clean = F[:, None].expand(-1, len(drawn), -1)
    stages = {"augmented": torch.stack(augmented, 1), "canonical": torch.stack(canonical, 1), "clean": clean}
    Y = torch.stack([attributes(a, family.name) for a in drawn], dim=1).to(F)
    return _scores(stages, Y, embedder.samples.labels.to(F.device), seed)


def canonicalize_rows(rotation: LearnedRotation, z: Float[Tensor, "n d"], a: Parameters) -> Float[Tensor, "n d"]:
    """R(a_i)ᵀ z_i, in blocks, since every row needs its own matrix."""
    rows = torch.arange(len(z)).split(ROWS_ROTATED)
    return torch.cat([rotation.canonicalize(z[i.to(z.device)], a[i]) for i in rows])


def attributes(a: Parameters, family: str) -> Float[Tensor, "n t"]:
    """The targets of the probes: the family's parameter, the hue as a point on the circle, the center of a crop, the
    matrix of a rotation.
    """
    if family == "hue" and isinstance(a, ImageParameters):
        angle = 2 * math.pi * a.hue
        return torch.stack([angle.cos(), angle.sin()], dim=1)
    targets = {name: target.values[:, 0] for name, target in parameter_targets(a).items()}
    names = {"crop": ("crop x", "crop y"), ALL: tuple(n for n in targets if n.startswith("rotation"))}
    return torch.stack([targets[name] for name in names.get(family, (family,)) if name in targets], dim=1)


def _scores(stages: Mapping[str, Tensor], Y: Float[Tensor, "n r t"], labels: Tensor, seed: int) -> Canonicalized:
    """Every probe on every stage [n, r, d]."""
    units = {
        LINEAR: {name: r2_units(Y, crossfit(Z, Y, least_squares, seed)) for name, Z in stages.items()},
        NETWORK: {name: r2_units(Y, crossfit(Z, Y, network(seed), seed)) for name, Z in stages.items()},
    }
    pairs = {name: torch.cat([stages["clean"], stages[name]], dim=2) for name in ("augmented", "canonical")}
    units[PAIR] = {name: r2_units(Y, crossfit(Z, Y, network(seed), seed)) for name, Z in pairs.items()}
    units[PAIR]["clean"] = units[NETWORK]["clean"]  # the pair of f(x) and f(x) holds no more than f(x)
    if (labels >= 0).sum() > 1:
        units[CLASS] = {name: _right(Z[labels >= 0], labels[labels >= 0], seed) for name, Z in stages.items()}
    return Canonicalized({probe: _probe_scores(by_stage) for probe, by_stage in units.items()})


def _right(Z: Float[Tensor, "n r d"], labels: Tensor, seed: int) -> Float[Tensor, " n"]:
    """The share of each image's rows that are classified correctly, by least squares on one-hot labels."""
    classes = torch.nn.functional.one_hot(labels).to(Z)[:, None].expand(-1, Z.shape[1], -1)
    return (crossfit(Z, classes, least_squares, seed).argmax(2) == labels[:, None]).double().mean(1)


def _probe_scores(units: Mapping[str, Tensor]) -> ProbeScores:
    change = paired_difference(units["augmented"], units["canonical"])
    return ProbeScores(**{stage: interval(values) for stage, values in units.items()}, change=change)


def _cells(scores: ProbeScores, percent: bool) -> tuple[str, ...]:
    """The scores from z, from z' with its interval, and from clean images."""
    after = scores.canonical
    numbers = (scores.augmented.difference, after.difference, after.low, after.high, scores.clean.difference)
    z, canonical, low, high, clean = (f"{100 * x:.1f}" if percent else _short(x) for x in numbers)
    unit = " %" if percent else ""
    return z + unit, canonical + unit, f"{low}, {high}", clean + unit


def _short(r2: float) -> str:
    return f"{round(r2, 2) + 0.0:.2f}"  # −0.00 becomes 0.00


def _known(numbers: Mapping[str, float]) -> dict[str, float | None]:
    return {name: None if math.isnan(value) else value for name, value in numbers.items()}
