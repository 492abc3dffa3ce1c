"""Not in the paper: the main comparisons of `peers` on other images with another network, small enough for a CPU.

Flowers-102 at 32 pixels and `small_resnet`, with the recipe and the weights that were chosen for CIFAR-10.
"""

from collections.abc import Sequence
from typing import Any

from care.reproduce.presentation import Presentation
from care.reproduce.scales import Scale
from care.reproduce.studies import peers
from care.reproduce.trial import Outcome, Trial

LABELS = (
    peers.BASE,
    peers.CONTROL,
    "keep hue",
    "keep hue, views predicted",
    "MoCo-v3",
    "AugSelf",
    "EquiMod",
    "STL",
    "CARE",
)
# The batch is smaller than on CIFAR-10, as there are few images: two views of 144 have as many pixels as four smaller
# ones of 128, the batch of `care train`.
SMALL: dict[str, Any] = {"model": "small_resnet", "size": 32, "epochs": 30, "batch_size": 144}


def trials(scale: Scale) -> list[Trial]:
    """The methods of the README's table with all seeds, on views of 24 px, at any scale but the smoke test."""
    own = {} if scale.instead else SMALL
    wanted = [label + peers.SMALLER for label in LABELS]
    return [t for t in peers.trials_on("flowers102", scale, {}, **own) if t.label in wanted]


def present(outcomes: Sequence[Outcome]) -> Presentation:
    """The table and figures of `peers`."""
    return peers.presented(outcomes, "peers-flowers", {})
