"""Not in the paper: the main comparisons of `peers` repeated on CIFAR-100, with nothing changed."""

from collections.abc import Sequence

from care.reproduce.presentation import Presentation
from care.reproduce.scales import Scale
from care.reproduce.studies import peers
from care.reproduce.trial import Outcome, Trial

TRANSFERRED = {"Flowers-102": "flowers102", "CIFAR-10": "cifar10"}
AT_BOTH_SIZES = (peers.BASE, peers.CONTROL, "keep hue", "keep hue, views predicted", "keep photometric", "AugSelf")
LABELS = (*AT_BOTH_SIZES, "CARE", *(label + peers.SMALLER for label in AT_BOTH_SIZES))


def trials(scale: Scale) -> list[Trial]:
    """The baselines, what `care train --keep` trains, AugSelf, whose loss that contains, and the paper's method."""
    return [trial for trial in peers.trials_on("cifar100", scale, TRANSFERRED) if trial.label in LABELS]


def present(outcomes: Sequence[Outcome]) -> Presentation:
    """The table and figures of `peers`."""
    return peers.presented(outcomes, "peers-cifar100", TRANSFERRED)
