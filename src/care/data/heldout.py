"""The default number of held-out samples."""

from bisect import bisect_left

import torch

from care.data.samples import Samples

# The share of all samples, if there is no test or val split, and its limits: `care evaluate` needs 20.
HELD_OUT, FEWEST_HELD_OUT, MOST_HELD_OUT = 0.1, 20, 1000


def default_validation(samples: Samples) -> int:
    """Held-out samples per class, for a tenth of all, from 20 to 1,000 in total; without classes, the total.

    It is the least N for which min(N, half of the class), what `Samples.split` holds out, sums to so many over the
    classes: a class that is small or empty gives fewer, and the others make up for it.
    """
    labels = samples.labels[samples.labels >= 0]
    sizes = labels.bincount(minlength=1) if samples.classes else torch.tensor([len(samples)])
    halves, total = sizes // 2, min(MOST_HELD_OUT, max(FEWEST_HELD_OUT, int(HELD_OUT * len(samples))))
    numbers = range(1, max(1, int(halves.max())))  # beyond them, every class gives its half
    return 1 + bisect_left(numbers, total, key=lambda n: int(halves.clamp_max(n).sum()))
