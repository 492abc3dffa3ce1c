"""Undo an augmentation in the embedding: what can still be told of it, and of the class?

    z = f(a(x)),    z' = R(a)ᵀ z

If augmentations are rotations, z' is f(x), and nobody can tell from it which one was drawn. Probes are trained anew on
z and on z': R(a)ᵀ knows a, so that where the embeddings do not turn as R does, more can be told from z' than from z.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from care.augment import COLOR_OPERATIONS, Parameters, PointPolicy
from care.evaluate.comparison.bootstrap import Difference, paired_difference
from care.evaluate.decoding.targets import parameter_targets
from care.evaluate.effects.families import ALL, Family, Watch
from care.evaluate.observer import Observer, Policy
from care.randomness import derive, generator_for
from care.steer.families import measured_families
from care.steer.probing import crossfit, interval, least_squares, network, r2_units
from care.steer.steering import Steering
from care.tables import text_table

DRAWS = 4  # augmentations of every image
ROWS_TURNED = 512  # embeddings that are turned at once, each by a matrix of its own

NOTHING = 0.05  # an R² below this tells nothing

LINEAR, NETWORK, PAIR, CLASS = "linear", "network", "network given f(x)", "class"


@dataclass(frozen=True)
class Reading:
    """What one probe tells from z, from z' and from f(x) of images that it was not trained on, and the gain of z' over
    z, with 95 % intervals over images: R² of the augmentation's parameters, or the share of right classes.
    """

    augmented: Difference
    canonical: Difference
    still: Difference
    change: Difference


@dataclass(frozen=True)
class Canonicalized:
    """How much of one family of augmentations is undone, by probe: least squares ("linear") and a small "network" on
    the embedding, the network on f(x) beside it ("network given f(x)"), and least squares for the "class", if known.

    Of an image with any color the hue shift cannot be told alone, only beside f(x).
    """

    readings: Mapping[str, Reading]

    def sentence(self, family: str) -> str:
        """What the best probe could tell before and can tell afterwards."""
        told = [reading for probe, reading in self.readings.items() if probe != CLASS]
        before, after = (max(getattr(r, stage).difference for r in told) for stage in ("augmented", "canonical"))
        words = f"the best probe tells it with R² {_short(before)} before and {_short(after)} after"
        if max(before, after) < NOTHING:
            words = "none of the probes can tell it, before or after"
        if CLASS not in self.readings:
            return f"{family} undone: {words}."
        stages = ("augmented", "canonical", "still")
        shares = (f"{100 * getattr(self.readings[CLASS], stage).difference:.1f} %" for stage in stages)
        right = "the class is told in {} before, {} after and {} of images as they are".format(*shares)
        return f"{family} undone: {words}; {right}."

    def to_json(self) -> dict[str, Any]:
        """Every number: probe → stage → mean and interval; null where there is none."""
        return {
            probe: {stage: _known(numbers) for stage, numbers in asdict(reading).items()}
            for probe, reading in self.readings.items()
        }


def canonical_table(families: Mapping[str, Canonicalized]) -> str:
    """A row per family: what is told before → after, with the interval of the latter."""
    probes = list(next(iter(families.values())).readings)
    header = ("family", *(name if name == CLASS else f"R² {name}" for name in probes))
    header += ("class, as it is",) if CLASS in probes else ()
    rows = []
    for family, found in families.items():
        cells = [_cell(reading, probe == CLASS) for probe, reading in found.readings.items()]
        still = [f"{100 * found.readings[CLASS].still.difference:.1f} %"] if CLASS in probes else []
        rows.append((family, *cells, *still))
    return text_table("the augmentation undone: told before → after [95 %]", header, rows)


def undone_families(policy: Policy) -> list[Family]:
    """Colors one by one and crops, `DRAWS` per image; of point clouds the whole policy."""
    wanted = (ALL,) if isinstance(policy, PointPolicy) else (*COLOR_OPERATIONS, "crop")
    return [part for part in measured_families(policy, DRAWS) if part.name in wanted]


def measure_canonical(
    observer: Observer,
    output: str,
    steering: Steering,
    families: Sequence[Family],
    seed: int = 0,
    watch: Watch | None = None,
) -> dict[str, Canonicalized]:
    """Every family, on images that `gather` did not see: pass an observer of those."""
    steering, found = steering.to(observer.device), {}
    F = observer.points(observer.clean())[output]
    for i, part in enumerate(families, start=1):
        found[part.name] = _measure_family(observer, output, steering, part, F, derive(seed, "canonical"))
        if watch is not None:
            watch("families undone", i, len(families))
    return found


@torch.no_grad()
def _measure_family(
    observer: Observer, output: str, steering: Steering, part: Family, F: Float[Tensor, "n d"], seed: int
) -> Canonicalized:
    generator = generator_for("cpu", seed, "draws", part.name)
    drawn = [part.policy.sample(len(F), observer.samples.source, generator) for _ in range(part.count)]  # type: ignore[arg-type]
    augmented, canonical = [], []
    for a in drawn:
        z = observer.points(observer.augmented_each(a))[output]
        augmented.append(z)
        canonical.append(canonicalized(steering, z, a))
    still = F[:, None].expand(-1, len(drawn), -1)
    stages = {"augmented": torch.stack(augmented, 1), "canonical": torch.stack(canonical, 1), "still": still}
    Y = torch.stack([attributes(a, part.name) for a in drawn], dim=1).to(F)
    return _readings(stages, Y, observer.samples.labels.to(F.device), seed)


def canonicalized(steering: Steering, z: Float[Tensor, "n d"], a: Parameters) -> Float[Tensor, "n d"]:
    """R(a_i)ᵀ z_i, some at a time: every row takes a matrix."""
    rows = torch.arange(len(z)).split(ROWS_TURNED)
    return torch.cat([steering.canonicalize(z[i.to(z.device)], a[i]) for i in rows])


def attributes(a: Parameters, family: str) -> Float[Tensor, "n t"]:
    """What is to be told of the augmentations: the family's parameter, the hue as a point on the circle, the place of a
    crop, the matrix of a rotation.
    """
    targets = parameter_targets(a)
    if family == "hue":
        angle = 2 * math.pi * targets["hue"]
        return torch.stack([angle.cos(), angle.sin()], dim=1)
    names = {"crop": ("crop x", "crop y"), ALL: tuple(n for n in targets if n.startswith("rotation"))}
    return torch.stack([targets[name] for name in names.get(family, (family,)) if name in targets], dim=1)


def _readings(stages: Mapping[str, Tensor], Y: Float[Tensor, "n r t"], labels: Tensor, seed: int) -> Canonicalized:
    """Every probe on every stage [n, r, d]."""
    told = {
        LINEAR: {name: r2_units(Y, crossfit(Z, Y, least_squares, seed)) for name, Z in stages.items()},
        NETWORK: {name: r2_units(Y, crossfit(Z, Y, network(seed), seed)) for name, Z in stages.items()},
    }
    beside = {name: torch.cat([stages["still"], stages[name]], dim=2) for name in ("augmented", "canonical")}
    told[PAIR] = {name: r2_units(Y, crossfit(Z, Y, network(seed), seed)) for name, Z in beside.items()}
    told[PAIR]["still"] = told[NETWORK]["still"]  # f(x) twice says what it says once
    if (labels >= 0).sum() > 1:
        told[CLASS] = {name: _right(Z[labels >= 0], labels[labels >= 0], seed) for name, Z in stages.items()}
    return Canonicalized({probe: _reading(units) for probe, units in told.items()})


def _right(Z: Float[Tensor, "n r d"], labels: Tensor, seed: int) -> Float[Tensor, " n"]:
    """The share of each image's rows whose class is told, by least squares on indicators of the classes."""
    classes = torch.nn.functional.one_hot(labels).to(Z)[:, None].expand(-1, Z.shape[1], -1)
    return (crossfit(Z, classes, least_squares, seed).argmax(2) == labels[:, None]).double().mean(1)


def _reading(units: Mapping[str, Tensor]) -> Reading:
    change = paired_difference(units["augmented"], units["canonical"])
    return Reading(**{stage: interval(values) for stage, values in units.items()}, change=change)


def _cell(reading: Reading, percent: bool) -> str:
    before, after = reading.augmented.difference, reading.canonical
    if percent:
        low, high = (f"{100 * x:.1f}" for x in (after.low, after.high))
        return f"{100 * before:.1f} % → {100 * after.difference:.1f} % [{low}, {high}]"
    middle, low, high = (_short(x) for x in (after.difference, after.low, after.high))
    return f"{_short(before)} → {middle} [{low}, {high}]"


def _short(r2: float) -> str:
    return f"{round(r2, 2) + 0.0:.2f}"  # −0.00 becomes 0.00


def _known(numbers: Mapping[str, float]) -> dict[str, float | None]:
    return {name: None if math.isnan(value) else value for name, value in numbers.items()}
