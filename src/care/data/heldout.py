"""How many samples are held out where nobody says."""

import math

from care.data.samples import Samples

# Of all samples, where there are none to watch: `care evaluate` wants 20.
HELD_OUT, FEWEST_HELD_OUT, MOST_HELD_OUT = 0.1, 20, 1000


def usual_validation(samples: Samples) -> int:
    """A tenth, from 20 to 1,000 in all, per class (of all where there are no classes), and half of a class at most."""
    labels = samples.labels[samples.labels >= 0]
    classes = labels.bincount(minlength=len(samples.classes)).tolist() if samples.classes else [len(samples)]
    heldout = min(MOST_HELD_OUT, max(FEWEST_HELD_OUT, int(HELD_OUT * len(samples))))
    return max(1, min(math.ceil(heldout / len(classes)), min(classes) // 2))
