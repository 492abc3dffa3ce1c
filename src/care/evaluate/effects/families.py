"""Augmentations family by family: which of them act on the embeddings as rotations?"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from care.augment import ImagePolicy, Parameters
from care.evaluate.effects.effect import Act, Response, act, respond, rotations
from care.evaluate.observer import Embeddings, Observer, Policy
from care.geometry import Euclidean, Principal, composition_error, principal_axes
from care.randomness import generator_for

ALL = "all"
SINGLE = ("flip", "gray", "solarize")  # these families hold one augmentation, however often they are drawn
PAIRS = 10  # compositions (a, b, b∘a) per family

# What is under way, how much of it is done, and how much there is.
Watch = Callable[[str, int, int], None]
# The output's name, the family, the number of the augmentation, and what it did.
Keep = Callable[[str, str, int, Act], None]


@dataclass(frozen=True)
class Family:
    """`count` augmentations of a policy, of which `pairs` are composed with another one."""

    name: str
    policy: Policy
    count: int

    @property
    def pairs(self) -> int:
        """A family of one augmentation has nothing to compose: flipping twice is doing nothing."""
        return min(PAIRS, self.count) if self.count > 1 or self.name == ALL else 0

    def draw(self, source: tuple[int, ...], seed: int) -> Parameters:
        """The augmentations a. Drawn on the host, they are the same wherever the model runs."""
        return self._drawn(self.count, source, seed, "a")

    def draw_second(self, source: tuple[int, ...], seed: int) -> Parameters:
        """The augmentations b that follow on the first ones: they act on views of the policy's size."""
        view = (self.policy.size,) * 2 if isinstance(self.policy, ImagePolicy) else source
        return self._drawn(self.pairs, view, seed, "b")

    def _drawn(self, count: int, source: tuple[int, ...], seed: int, which: str) -> Parameters:
        generator = generator_for("cpu", seed, "measure", self.name, which)
        return self.policy.sample(count, source, generator)  # type: ignore[arg-type]


def families_of(policy: Policy, augmentations: int, apart: bool = True) -> list[Family]:
    """The policy as it is, and each of its families alone and for certain."""
    whole = [Family(ALL, policy, augmentations)]
    if not isinstance(policy, ImagePolicy) or not apart:
        return whole
    return whole + [
        Family(name, policy.only(name).certain(), 1 if name in SINGLE else augmentations) for name in policy.families()
    ]


def respond_to_families(
    observer: Observer,
    F: Embeddings,
    augmentations: int,
    apart: bool = True,
    seed: int = 0,
    watch: Watch | None = None,
    keep: Keep | None = None,
) -> dict[str, dict[str, Response]]:
    """Output → family → response, where F holds f(x) of every output."""
    if augmentations < 1:
        raise ValueError(f"at least one augmentation must be drawn, got {augmentations}")
    parts = families_of(observer.policy, augmentations, apart)
    axes = {output: principal_axes(z) for output, z in F.items() if isinstance(observer.form(output), Euclidean)}
    steps = _Steps(watch, sum(part.count + part.pairs for part in parts))
    found: dict[str, dict[str, Response]] = {output: {} for output in F}
    for part in parts:
        for output, response in _respond(observer, F, axes, part, seed, steps, keep).items():
            found[output][part.name] = response
    return found


def _respond(
    observer: Observer,
    F: Embeddings,
    axes: Mapping[str, Principal],
    part: Family,
    seed: int,
    steps: "_Steps",
    keep: Keep | None,
) -> dict[str, Response]:
    """The response of every output to one family, augmentation by augmentation: none is held on to."""
    source = observer.samples.source
    a, b = part.draw(source, seed), part.draw_second(source, seed)
    measures: dict[str, list[dict[str, Tensor]]] = {output: [] for output in F}
    defects: dict[str, list[Tensor]] = {output: [] for output in F}
    for i in range(part.count):
        moved = observer.points(observer.augmented(a[i]))
        acts = {o: act(F[o], F_a, observer.form(o), axes.get(o)) for o, F_a in moved.items()}
        for output, done in acts.items():
            measures[output].append(done.measures)
            if keep is not None:
                keep(output, part.name, i, done)
        steps.done()
        if i < part.pairs:
            for output, defect in _compose(observer, F, acts, a[i], b[i]).items():
                defects[output].append(defect)
            steps.done()
    names = [a.describe(i) for i in range(part.count)]
    return {output: respond(names, measures[output], defects[output]) for output in F}


def _compose(
    observer: Observer, F: Embeddings, acts: dict[str, Act], a: Parameters, b: Parameters
) -> dict[str, Float[Tensor, ""]]:
    """The composition defect of (a, b, b∘a). b acts on what a gives, so f(b(x)) is of the un-augmented view."""
    still = observer.policy.unchanged(1, observer.samples.source)  # type: ignore[arg-type]
    F_b, F_ba = (observer.points(observer.augmented(first, b)) for first in (still, a))
    return {
        output: composition_error(
            F[output], done.F_a, F_b[output], F_ba[output], rotations(observer.form(output)), done.R
        )
        for output, done in acts.items()
    }


def spectrum(F: Float[Tensor, "n d"]) -> Float[Tensor, " r"]:
    """The singular values of the centered embeddings, over √n: how many dimensions they use."""
    return torch.linalg.svdvals(F - F.mean(0)) / len(F) ** 0.5


class _Steps:
    """Counts what is done and tells whoever watches."""

    def __init__(self, watch: Watch | None, total: int) -> None:
        self.watch, self.total, self.count = watch, total, 0

    def done(self) -> None:
        self.count += 1
        if self.watch is not None:
            self.watch("augmentations", self.count, self.total)
