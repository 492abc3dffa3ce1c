"""A warning, given once per run, when the log shows that the embedding has collapsed."""

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

LEAST, SHARE = 2.0, 0.1


def collapse_warning(log: Sequence[Mapping[str, Any]], embedding_dim: int) -> str | None:
    """A sentence if the last epoch is the first one with a collapsed embedding; None otherwise.

    The embedding has collapsed if its RankMe is below a tenth of the highest RankMe so far, or below 2 and not rising:
    a network that has hardly been trained also has a low RankMe, but a rising one. For d < 11 dimensions, the threshold
    is 1 + (d − 1)/10 in place of 2.
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
