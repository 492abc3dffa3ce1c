"""The effects of augmentations family by family: which of them act on embeddings as rotations?"""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from jaxtyping import Float
from torch import Tensor

from care.augment import COLOR_OPERATIONS, ImagePolicy, Parameters
from care.augment.naming import Policy
from care.evaluate.effects.effect import Effect, FamilyMeasures, effect_of, family_measures
from care.evaluate.embedder import Embedder, Embeddings
from care.geometry import POINTS_PER_DIRECTION, Euclidean, Source, source_of
from care.progress import ProgressCallback, silent
from care.randomness import generator_for

ALL = "all"
SINGLE = ("flip", "gray", "solarize")  # these families contain a single augmentation
PAIRS = 10  # compositions (a, b, b∘a) per family

# The output's name, the family, the number of the augmentation, and its effect.
OnEffect = Callable[[str, str, int, Effect], None]


@dataclass(frozen=True)
class Family:
    """`count` augmentations of a policy, of which `pairs` are composed with another one."""

    name: str
    policy: Policy
    count: int

    @property
    def pairs(self) -> int:
        """The number of compositions: 0 for a family of one augmentation, since flipping twice is the identity."""
        return min(PAIRS, self.count) if self.count > 1 or self.name == ALL else 0

    def draw(self, input_shape: tuple[int, ...], seed: int) -> Parameters:
        """Draw the augmentations a on the host, so that they are the same wherever the model runs."""
        return self._drawn(self.count, input_shape, seed, "a")

    def draw_second(self, input_shape: tuple[int, ...], seed: int) -> Parameters:
        """Draw the augmentations b of b∘a, which are applied to views of the policy's size."""
        view = (self.policy.size,) * 2 if isinstance(self.policy, ImagePolicy) else input_shape
        return self._drawn(self.pairs, view, seed, "b")

    def _drawn(self, count: int, input_shape: tuple[int, ...], seed: int, which: str) -> Parameters:
        generator = generator_for("cpu", seed, "measure", self.name, which)
        return self.policy.sample(count, input_shape, generator)  # type: ignore[arg-type]


def families_of(policy: Policy, augmentations: int, apart: bool = True) -> list[Family]:
    """The whole policy and, with `apart`, each of its families alone with probability 1, including hue."""
    whole = [Family(ALL, policy, augmentations)]
    if not isinstance(policy, ImagePolicy) or not apart:
        return whole
    families = [
        Family(name, policy.only(name).certain(), 1 if name in SINGLE else augmentations) for name in policy.families()
    ]
    return whole + families + color_families(policy, augmentations, "hue")


def color_families(policy: Policy, augmentations: int, *operations: str) -> list[Family]:
    """Color `operations` (brightness, contrast, saturation, hue) alone, of a policy that has several."""
    if not isinstance(policy, ImagePolicy) or not policy.color:
        return []
    there = [name for name in COLOR_OPERATIONS if getattr(policy, name) > 0]
    colors, found = policy.only("color").certain(), []
    for name in (name for name in there if name in operations and len(there) > 1):
        off: dict[str, Any] = {other: 0.0 for other in there if other != name}
        found.append(Family(name, dataclasses.replace(colors, **off), augmentations))
    return found


def measure_families(
    embedder: Embedder,
    F: Embeddings,
    augmentations: int,
    apart: bool = True,
    seed: int = 0,
    progress: ProgressCallback = silent,
    on_effect: OnEffect | None = None,
    rank: int | None = None,
) -> tuple[dict[str, dict[str, FamilyMeasures]], dict[str, Source]]:
    """(output → family → measures, output → source of the fits); F holds f(x) of every output, as points of its space.

    On the sphere, rotations act on the `rank` leading directions, at most as many as the number of images allows.
    """
    if augmentations < 1:
        raise ValueError(f"at least one augmentation must be drawn, got {augmentations}")
    families = families_of(embedder.policy, augmentations, apart)
    sources = sources_of(embedder, F, rank, seed)
    steps = _Steps(progress, sum(family.count + family.pairs for family in families))
    found: dict[str, dict[str, FamilyMeasures]] = {output: {} for output in F}
    for family in families:
        for output, measured in _measure_family(embedder, F, sources, family, seed, steps, on_effect).items():
            found[output][family.name] = measured
    return found, sources


def sources_of(embedder: Embedder, F: Embeddings, rank: int | None, seed: int) -> dict[str, Source]:
    """The source of the rotation fits, for each output on the sphere.

    If not all directions can be kept, the leading directions of clean and augmented embeddings together are used.
    """
    on_sphere = {output: z for output, z in F.items() if isinstance(embedder.form(output), Euclidean)}
    if all(rank is None and len(z) >= POINTS_PER_DIRECTION * z.shape[1] for z in on_sphere.values()):
        return {output: source_of(z) for output, z in on_sphere.items()}
    samples, generator = embedder.samples, generator_for("cpu", seed, "span")
    drawn = embedder.policy.sample(len(samples), samples.input_shape, generator)  # type: ignore[arg-type]
    augmented = embedder.points(embedder.augmented_each(drawn))
    return {output: source_of(z, augmented[output], rank) for output, z in on_sphere.items()}


def _measure_family(
    embedder: Embedder,
    F: Embeddings,
    sources: Mapping[str, Source],
    family: Family,
    seed: int,
    steps: "_Steps",
    on_effect: OnEffect | None,
) -> dict[str, FamilyMeasures]:
    """The measures of one family at every output. Effects are measured one by one; only `on_effect` may keep them."""
    input_shape = embedder.samples.input_shape
    a, b = family.draw(input_shape, seed), family.draw_second(input_shape, seed)
    measures: dict[str, list[dict[str, Tensor]]] = {output: [] for output in F}
    compositions: dict[str, list[Tensor]] = {output: [] for output in F}
    per_image: dict[str, list[dict[str, Tensor]]] = {output: [] for output in F}
    for i in range(family.count):
        augmented = embedder.points(embedder.augmented(a[i]))
        effects = {o: effect_of(F[o], F_a, embedder.form(o), sources.get(o)) for o, F_a in augmented.items()}
        for output, effect in effects.items():
            measures[output].append(effect.measures)
            if i < PAIRS:  # these augmentations are composed, so their rotations are fitted in any case
                per_image[output].append(effect.per_image())
            if on_effect is not None:
                on_effect(output, family.name, i, effect)
        steps.done()
        if i < family.pairs:
            for output, composition in _compositions(embedder, effects, a[i], b[i]).items():
                compositions[output].append(composition)
            steps.done()
    names = [a.describe(i) for i in range(family.count)]
    return {output: family_measures(names, measures[output], compositions[output], per_image[output]) for output in F}


def _compositions(
    embedder: Embedder, effects: dict[str, Effect], a: Parameters, b: Parameters
) -> dict[str, Float[Tensor, "2 n"]]:
    """Error and displacement of b∘a by image. b is applied to views that a has made, so b(x) is b of the clean view."""
    clean = embedder.policy.unchanged(1, embedder.samples.input_shape)  # type: ignore[arg-type]
    F_b, F_ba = (embedder.points(embedder.augmented(first, b)) for first in (clean, a))
    return {output: effect.composition(F_b[output], F_ba[output]) for output, effect in effects.items()}


class _Steps:
    """Counts what is done and reports it to `progress`."""

    def __init__(self, progress: ProgressCallback, total: int) -> None:
        self.progress, self.total, self.count = progress, total, 0

    def done(self) -> None:
        self.count += 1
        self.progress("augmentations", self.count, self.total)
