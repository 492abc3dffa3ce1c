"""The default number of held-out samples."""

import math

from care.data.samples import Samples

# The share of all samples, if there is no test or val split, and its limits: `care evaluate` needs 20.
HELD_OUT, FEWEST_HELD_OUT, MOST_HELD_OUT = 0.1, 20, 1000


def usual_validation(samples: Samples) -> int:
    """Held-out samples per class: a tenth of all, from 20 to 1,000 in total, and at most half of a class.

    Without classes, the total.
    """
    labels = samples.labels[samples.labels >= 0]
    classes = labels.bincount(minlength=len(samples.classes)).tolist() if samples.classes else [len(samples)]
    heldout = min(MOST_HELD_OUT, max(FEWEST_HELD_OUT, int(HELD_OUT * len(samples))))
    return max(1, min(math.ceil(heldout / len(classes)), min(classes) // 2))
