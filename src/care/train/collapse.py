"""Has the embedding collapsed? A warning from the log of a run, once."""

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

LEAST, SHARE = 2.0, 0.1


def collapse_warning(log: Sequence[Mapping[str, Any]], embedding_dim: int) -> str | None:
    """A sentence if the last epoch is the first at which the embedding is seen to have collapsed.

    It has where its RankMe is below a tenth of the highest before, or below 2 and not rising: that of a network that
    has hardly been trained is low, too, but rises. Of d ≤ 10 dimensions, 1 + (d − 1)/10 stands for 2.
    """
    ranks = [value for record in log if (value := record.get("rankme")) is not None]
    if len(ranks) < 2 or log[-1].get("rankme") is None:
        return None
    least, highest = min(LEAST, 1 + (embedding_dim - 1) / 10), list(accumulate(ranks, max))
    collapsed = [
        now < SHARE * high or (now < least and now <= before)
        for before, now, high in zip(ranks, ranks[1:], highest, strict=False)
    ]
    if not collapsed[-1] or any(collapsed[:-1]):
        return None
    return (
        f"the embedding has collapsed: after epoch {log[-1]['epoch']} its RankMe is {ranks[-1]:.1f} of {embedding_dim} "
        f"and was {highest[-2]:.1f}; try a lower learning rate, less weight of the equivariance loss, or another method"
    )
