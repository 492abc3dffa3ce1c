"""MoCo-v2 (Chen, Fan, Girshick and He, 2020): keys from a slowly moving teacher, negatives from a queue."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from care.geometry import Euclidean
from care.losses import queue_info_nce
from care.methods.teacher import TeacherMethod
from care.models import Encoder, forward_shuffled
from care.objective import Context, EncodedView, Settings, Term, Terms, setting

# BatchNorm normalizes keys in interleaved groups of about this many, over all processes, so that a key and its query
# are normalized with different images.
KEYS_PER_GROUP = 32


@dataclass(frozen=True, kw_only=True)
class MoCoSettings(Settings):
    """Settings of MoCo-v2."""

    temperature: float = setting(0.1, "τ of InfoNCE.", above=0)
    queue: int = setting(4096, "Number of keys of earlier batches, the negatives.", at_least=1, at_most=1 << 24)
    teacher_momentum: float = setting(0.99, "m of θ_teacher ← m θ_teacher + (1 − m) θ.", at_least=0, below=1)
    symmetric: bool = setting(
        False,
        "Use every view as query and as key: a batch gives twice the signal, for twice the passes.",
    )


class MoCo(TeacherMethod):
    """L = E_i [−log( e^{q_i·k_i/τ} / (e^{q_i·k_i/τ} + Σ_j e^{q_i·queue_j/τ}) )], q = f(a x), k = f_teacher(a' x).

    The second view is the key, and all others are queries. The symmetric loss is the mean over all pairs of a query and
    the key of another view.

    The current keys enter the queue after the step, so they are never negatives of their own batch. The queue starts
    with random points on the sphere, which the first batches replace.
    """

    Settings = MoCoSettings
    gathered = False
    any_views = True
    queue: Tensor

    def __init__(self, settings: Any, encoder: Encoder, context: Context) -> None:
        super().__init__(settings, encoder, context)
        self.groups = key_groups(context)
        start = torch.randn(settings.queue, context.invariant_dim, generator=torch.Generator().manual_seed(0))
        self.register_buffer("queue", Euclidean().embed(start))
        self.keys: list[Tensor] = []

    @classmethod
    def check(cls, settings: Any, context: Context) -> None:
        """ValueError unless the keys can be split into groups."""
        key_groups(context)

    @classmethod
    def check_step(cls, settings: Any, views: int, samples: int) -> None:
        """ValueError unless the queue holds at least the keys of a step, which enter it together."""
        keys = samples * len(cls.teacher_views(settings, views))
        if settings.queue < keys:
            raise ValueError(
                f"the queue of {settings.queue} is smaller than the {keys} keys of a step: choose a queue of at least "
                f"{keys}"
            )

    @classmethod
    def encoder_views(cls, settings: Any, views: int) -> Sequence[int]:
        """The positions of the queries."""
        return range(views) if settings.symmetric else [0, *range(2, views)]

    @classmethod
    def teacher_views(cls, settings: Any, views: int) -> Sequence[int]:
        """The positions of the keys."""
        return range(views) if settings.symmetric else [1]

    def terms(self, *views: EncodedView) -> Terms:
        """InfoNCE of the queries with the keys of other views, and the queue."""
        s, n = self.settings, len(views)
        taught = self.teacher_views(s, n)
        encoded = self.teacher_embeddings([views[b] for b in taught], partial(forward_shuffled, groups=self.groups))
        keys = {b: z[:, : self.context.invariant_dim] for b, z in zip(taught, encoded, strict=True)}
        self.keys += keys.values()
        pairs = [(a, b) for a in self.encoder_views(s, n) for b in keys if a != b]
        losses = [queue_info_nce(views[a].z, keys[b], self.queue, s.temperature) for a, b in pairs]
        return {"info_nce": Term(torch.stack(losses).mean())}

    @torch.no_grad()
    def after_step(self, encoder: Encoder, progress: Tensor) -> None:
        """Move the teacher, and let this step's keys of all processes replace the oldest in the queue."""
        self.update_ema(encoder, self.settings.teacher_momentum)
        keys = Euclidean().embed(torch.cat([self.gather(keys) for keys in self.keys]).to(self.queue.dtype))
        self.queue.copy_(torch.cat([keys, self.queue])[: len(self.queue)])
        self.keys.clear()


def key_groups(context: Context) -> int:
    """The number of groups, of about `KEYS_PER_GROUP` keys, for BatchNorm; processes have equally many keys of each.

    ValueError if only one group is possible: keys would be normalized with the same images as their queries.
    """
    share = context.batch // context.processes
    possible = [groups for groups in range(2, share + 1) if share % groups == 0 and context.batch // groups > 1]
    if not possible:
        raise ValueError(
            f"mocov2 normalizes keys in groups, and a batch of {context.batch} cannot be split into groups: choose "
            "another batch size"
        )
    return min(possible, key=lambda groups: abs(math.log(context.batch / groups / KEYS_PER_GROUP)))
