"""What can be chosen about a method, and what cannot go together."""

import math
from dataclasses import dataclass, fields
from typing import Literal, get_args

from care.augment import PRESETS
from care.geometry.forms import FORMS

MethodName = Literal[
    "simclr", "mocov2", "barlow_twins", "vicreg", "byol", "simsiam", "invariance", "uniformity", "equivariance"
]
# Those whose loss takes the embeddings themselves, and so a part of their coordinates, too.
WITH_TURNED = ("simclr", "mocov2", "barlow_twins", "vicreg", "byol", "simsiam")

# MoCo's keys are normalized by BatchNorm in groups of this many, interleaved, over all processes: a key and its query
# meet different images there.
KEYS_PER_GROUP = 32

# The smallest and the largest that make sense: beyond these, memory ends before training begins.
RANGES = {
    "embedding": (2, 1 << 16), "head_width": (1, 1 << 16), "head_depth": (1, 64), "queue": (1, 1 << 24),
    "steering_rank": (2, 512),
}  # fmt: skip
LARGEST_SIZE = 4096


@dataclass(frozen=True, kw_only=True)
class MethodSettings:
    """An encoder, a Siamese loss, and the equivariance loss on top with λ = `equivariance` (times its mean over pairs).

    Of the embedding, the last `turned` coordinates are for augmentations to turn, and not compared by the Siamese loss;
    `orbit` is the weight of the loss that keeps them from standing still, `turning` that of all that is asked of them.
    `steering` is μ, the weight of the steering loss, which turns the first `steering_rank` coordinates of embeddings.

    The paper's six ablations are `method` = invariance, equivariance, uniformity, uniformity with equivariance > 0,
    simclr, and simclr with equivariance > 0.
    """

    method: MethodName = "simclr"
    temperature: float = 0.5
    equivariance: float = 0.0
    turned: int = 0
    orbit: float = 1.0
    turning: float = 1.0
    steering: float = 0.0
    steering_rank: int = 32
    chunks: int = 16
    form: str = "euclidean"
    views: Literal[2, 4] = 4
    chunked_views: Literal[1, 2] = 2
    shared_by: Literal["chunk", "batch"] = "chunk"
    policy: str = "cifar10"
    chunk_policy: str = "cifar10"
    size: int | None = None
    identity: float = 0.0
    model: str = "resnet18"
    embedding: int = 128
    head_width: int = 512
    head_depth: int = 2
    head_batchnorm: bool = True
    batchnorm: Literal["view", "joint"] = "view"
    queue: int = 4096
    momentum: float = 0.99

    @property
    def chunked(self) -> bool:
        """Whether there is a loss that wants chunks that share an augmentation."""
        return self.equivariance > 0 or self.steering > 0

    def check(self, batch: int, processes: int = 1) -> None:
        """Raise ValueError, one sentence, for settings that make no sense together."""
        _one_of("method", self.method, get_args(MethodName))
        _one_of("form", self.form, FORMS)
        for name in ("policy", "chunk_policy"):
            _one_of(name, getattr(self, name), [*PRESETS, "rotations"])
        _require(self.temperature > 0, f"temperature must be greater than 0, got {self.temperature}")
        _require(self.equivariance >= 0, f"equivariance (λ) must not be negative, got {self.equivariance}")
        _require(self.steering >= 0, f"steering (μ) must not be negative, got {self.steering}")
        _require(self.orbit >= 0, f"orbit (ω) must not be negative, got {self.orbit}")
        _require(self.turning > 0, f"turning (κ) must be greater than 0, got {self.turning}")
        _require(self.size is None or self.size >= 8, f"size must be at least 8 pixels, got {self.size}")
        _require(
            not self.size or self.size <= LARGEST_SIZE, f"size must be at most {LARGEST_SIZE} pixels, got {self.size}"
        )
        for name, (low, high) in RANGES.items():
            _require(
                low <= getattr(self, name) <= high, f"{name} must be in [{low}, {high}], got {getattr(self, name)}"
            )
        _require(0 <= self.identity <= 1, f"identity is a probability, got {self.identity}")
        _require(0 <= self.momentum < 1, f"momentum must be in [0, 1), got {self.momentum}")
        alone = self.method == "equivariance"
        _require(not alone or self.equivariance > 0, "the method equivariance needs equivariance > 0")
        _require(self.form == "euclidean" or self.equivariance > 0, f"form {self.form} needs equivariance > 0")
        _require(self.form != "symplectic" or self.embedding % 2 == 0, "the symplectic form needs an even embedding")
        _require(self.form == "euclidean" or self.steering == 0, f"steering turns spheres, not the form {self.form}")
        _require(
            batch % processes == 0, f"{processes} processes cannot share a batch of {batch} evenly: choose a multiple"
        )
        self._check_idle()
        if self.turned:
            self._check_turned()
        if self.chunked:
            self._check_chunks(batch, processes)
        if self.method == "mocov2":
            _require(self.queue >= batch, f"the queue of {self.queue} is smaller than a batch of {batch}")
            key_groups(batch, processes)

    def _check_idle(self) -> None:
        """Views and terms of the loss that were asked for and would not be there.

        Numbers of another method are no mistake: who compares methods has one configuration for all.
        """
        two = self.chunked and self.views == 2 and self.method != "equivariance"
        uses = {
            "orbit": (self.turned > 0, "turned coordinates"),
            "turning": (self.turned > 0, "turned coordinates"),
            "identity": (self.chunked, "equivariance or steering"),
            "shared_by": (self.chunked and not two, "four views with equivariance or steering"),
            "chunked_views": (two, "two views (views = 2) with equivariance or steering"),
        }
        for field in fields(MethodSettings):
            used, by = uses.get(field.name, (True, ""))
            chosen = getattr(self, field.name) != field.default
            _require(used or not chosen, f"{field.name} is of use to {by} only: leave it at {field.default}")
        same = not two or self.policy == self.chunk_policy
        _require(same, "two views that serve both losses have one policy: policy and chunk_policy must be the same")

    def _check_turned(self) -> None:
        most = self.embedding - 2
        _require(2 <= self.turned <= most, f"turned must be 0, or in [2, {most}] for an embedding of {self.embedding}")
        _require(self.equivariance > 0, "turned coordinates need equivariance > 0: nothing else turns them")
        _require(self.method in WITH_TURNED, f"turned goes with {', '.join(WITH_TURNED)}, not with {self.method}")
        _require(self.steering == 0, "turned and steering do not go together: both say which coordinates turn")
        _require(self.form == "euclidean", f"turned coordinates are on a sphere, not in the space of {self.form}")

    def _check_chunks(self, batch: int, processes: int) -> None:
        good = [c for c in range(processes, batch // 2 + 1, processes) if batch % c == 0]
        shown = ", ".join(map(str, good)) or "none"
        _require(
            self.chunks in good,
            f"chunks must divide a batch of {batch} into at least 2 images each"
            + (f" and be a multiple of {processes} processes" if processes > 1 else "")
            + f": {self.chunks} does not; these do: {shown}",
        )


def key_groups(batch: int, processes: int = 1) -> int:
    """In how many groups of about `KEYS_PER_GROUP` MoCo's keys are normalized; each process has as many keys of each.

    ValueError where there would be but one: keys would be normalized with the very images of their queries.
    """
    share = batch // processes
    possible = [groups for groups in range(2, share + 1) if share % groups == 0 and batch // groups > 1]
    _require(
        bool(possible), f"mocov2 normalizes keys in groups, and a batch of {batch} cannot be parted: choose another"
    )
    return min(possible, key=lambda groups: abs(math.log(batch / groups / KEYS_PER_GROUP)))


def _one_of(name: str, value: object, choices: object) -> None:
    options = list(choices)  # type: ignore[call-overload]
    _require(value in options, f"{name} must be one of {', '.join(map(str, options))}, got {value}")


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)
