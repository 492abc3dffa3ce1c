"""Several policies at once: each augmentation is drawn from one of them."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, get_args

import torch
from torch import Tensor

from care.augment.images import ImageParameters
from care.augment.policy import Family, ImagePolicy

SHARED = ("size", "center", "kernel_size", "threshold", "identity")
# The parameters of a family, which matter only if the policy may draw it.
STRENGTHS = ("brightness", "contrast", "saturation", "hue")
RANGES: dict[str, Family] = {"scale": "crop", "ratio": "crop", "sigma": "blur"}


@dataclass(frozen=True)
class MixedPolicy(ImagePolicy):
    """Each augmentation is drawn from one of the `parts`, all equally likely: for example, one family per chunk.

    The other fields combine those of the parts, so that a single family of the mixture (`only`) is an ordinary policy.
    """

    parts: tuple[ImagePolicy, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        shared: dict[str, Any] = {name: getattr(self, name) for name in SHARED}
        object.__setattr__(self, "parts", tuple(dataclasses.replace(part, **shared) for part in self.parts))

    def only(self, *families: Family) -> ImagePolicy:
        """The parts combined, with every other family of augmentations switched off."""
        return self._together().only(*families)

    def certain(self) -> ImagePolicy:
        """The parts combined, with every family drawn for certain."""
        return self._together().certain()

    def random_numbers(self, n: int, input_shape: tuple[int, int], generator: torch.Generator) -> tuple[Tensor, ...]:
        """The numbers of any policy, and one that selects the part to draw from."""
        numbers = super().random_numbers(n, input_shape, generator)
        return *numbers, torch.rand(n, generator=generator, device=generator.device)

    def sharing(self, numbers: tuple[Tensor, ...], others: tuple[Tensor, ...], family: Family) -> tuple[Tensor, ...]:
        """Two augmentations agree in a family only if the same part draws both."""
        *uniform, _ = numbers
        *theirs, which = others
        return *super().sharing(tuple(uniform), tuple(theirs), family), which

    def from_numbers(
        self, numbers: tuple[Tensor, ...], input_shape: tuple[int, int], aspect: Tensor | None = None
    ) -> ImageParameters:
        """The augmentations that `random_numbers` determine."""
        *uniform, which = numbers
        drawn = [part.from_numbers(tuple(uniform), input_shape, aspect) for part in self.parts]
        part = (which * len(drawn)).long().clamp_max(len(drawn) - 1)  # 0.99… · 3 may round to 3
        rows = torch.arange(len(part), device=part.device)
        return drawn[0]._map(lambda name, _: torch.stack([getattr(one, name) for one in drawn])[part, rows])

    def _together(self) -> ImagePolicy:
        return ImagePolicy(**{field.name: getattr(self, field.name) for field in dataclasses.fields(ImagePolicy)})


def mixture(parts: Sequence[ImagePolicy]) -> MixedPolicy:
    """The policy that draws each augmentation from one of the parts; its views have the size of the first part's."""
    first: dict[str, Any] = {field.name: getattr(parts[0], field.name) for field in dataclasses.fields(ImagePolicy)}
    together: dict[str, Any] = {family: max(getattr(part, family) for part in parts) for family in get_args(Family)}
    colors = [part for part in parts if part.color > 0]
    together |= {name: max((getattr(part, name) for part in colors), default=0.0) for name in STRENGTHS}
    for name, family in RANGES.items():
        ends = [getattr(part, name) for part in parts if getattr(part, family) > 0]
        together |= {name: (min(low for low, _ in ends), max(high for _, high in ends))} if ends else {}
    return MixedPolicy(**(first | together), parts=tuple(parts))
