"""Linear probes: the accuracy of linear classifiers on frozen features.

Probes of all seeds and learning rates are trained at once, as one batched product; each equals a probe trained alone
with `torch.optim`. Results are always those after the last epoch.
"""

import statistics
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int, Int64
from torch import Tensor

from care.data.class_rank import rank_within_class
from care.evaluate.adam import adam_step
from care.evaluate.features.logistic import checked_rows, cross_entropy_gradient
from care.randomness import generator_for

# Scores are made in blocks of at most this many entries (64 MiB in float32).
SCORES_AT_ONCE = 2**24

Batches = Callable[[int], Iterable[tuple[Tensor, Tensor]]]


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)


@dataclass(frozen=True)
class Protocol:
    """How probes are trained. `momentum` is that of "sgd" and β₁ of "adam"; weight decay is added to the gradient, bias
    included, as `torch.optim` does in both. After each of `milestones` epochs the rate is multiplied by `decay`.

    Each of `seeds` is one probe. With several learning rates, the reported one is chosen on held-out training rows.
    """

    optimizer: Literal["adam", "sgd"] = "adam"
    learning_rates: tuple[float, ...] = (1e-3,)
    weight_decay: float = 1e-6
    momentum: float = 0.9
    epochs: int = 100
    batch_size: int = 512
    milestones: tuple[int, ...] = ()
    decay: float = 0.1
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)

    def __post_init__(self) -> None:
        rates, falls = self.learning_rates, self.milestones
        _require(self.optimizer in ("adam", "sgd"), f'optimizer must be "adam" or "sgd", got {self.optimizer!r}')
        positive = len(rates) > 0 and all(0 < rate < float("inf") for rate in rates)
        _require(positive, f"learning_rates must be one or more positive numbers, got {rates}")
        _require(0 <= self.weight_decay < float("inf"), f"weight_decay must not be negative, got {self.weight_decay}")
        _require(0 <= self.momentum < 1, f"momentum must be in [0, 1), got {self.momentum}")
        _require(self.epochs >= 1, f"epochs must be at least 1, got {self.epochs}")
        _require(self.batch_size >= 1, f"batch_size must be at least 1, got {self.batch_size}")
        inside = all(0 < epoch < self.epochs for epoch in falls) and list(falls) == sorted(set(falls))
        _require(inside, f"milestones must ascend between 1 and the last of {self.epochs} epochs, got {falls}")
        _require(0 < self.decay <= 1, f"decay must be in (0, 1], got {self.decay}")
        _require(0 < len(set(self.seeds)) == len(self.seeds), f"seeds must be different numbers, got {self.seeds}")


# The paper's protocols, for CIFAR-10, CIFAR-100 and STL-10, and for ImageNet-100.
PAPER = Protocol()
IMAGENET100 = Protocol("sgd", (30.0,), weight_decay=0.0, epochs=60, batch_size=128, milestones=(30, 40, 50))


@dataclass(frozen=True, eq=False)
class Probes:
    """Linear classifiers, one per learning rate and seed: scores = features @ weight + bias."""

    weight: Float[Tensor, "rates seeds d classes"]
    bias: Float[Tensor, "rates seeds classes"]


@dataclass(frozen=True, eq=False)
class ProbeResult:
    """Which test rows each probe classifies correctly, top-1 and top-5 (of all classes, if they are fewer).

    `chosen` is the index of the learning rate chosen on held-out training rows; all accuracies are for this rate.
    """

    learning_rates: tuple[float, ...]
    chosen: int
    correct: Bool[Tensor, "rates seeds m"]
    correct5: Bool[Tensor, "rates seeds m"]

    @property
    def top1(self) -> tuple[float, ...]:
        """Top-1 accuracy on the test rows, per seed."""
        return tuple(right / self.correct.shape[2] for right in self.correct[self.chosen].sum(1).tolist())

    @property
    def top5(self) -> tuple[float, ...]:
        """Top-5 accuracy on the test rows, per seed."""
        return tuple(right / self.correct5.shape[2] for right in self.correct5[self.chosen].sum(1).tolist())

    @property
    def mean(self) -> float:
        """The mean of `top1` over seeds."""
        return statistics.fmean(self.top1)

    @property
    def std(self) -> float:
        """The sample standard deviation of `top1` over seeds, 0 for a single seed."""
        return statistics.stdev(self.top1) if len(self.top1) > 1 else 0.0

    def to_json(self) -> dict[str, Any]:
        """The chosen rate and its accuracies as plain numbers."""
        names = ("top1", "mean", "std", "top5", "chosen", "learning_rates")
        values = {name: getattr(self, name) for name in names}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def linear_probe(
    train_features: Float[Tensor, "n d"],
    train_labels: Int[Tensor, " n"],
    test_features: Float[Tensor, "m d"],
    test_labels: Int[Tensor, " m"],
    protocol: Protocol = PAPER,
    seed: int = 0,
    tick: Callable[[int, int], None] = lambda done, total: None,
) -> ProbeResult:
    """Train probes on the training rows and score them on the test rows, which are used for no choice.

    A test row of a class that no training row has counts as wrong, as it does for kNN and logistic regression.
    With several learning rates, probes are first trained without every tenth training row of each class; the rate with
    the highest mean accuracy on these is reported. Then all are trained on all rows. `tick(done, total)` is called
    every epoch.
    """
    train_features, train_labels = checked_rows(train_features, train_labels, "training")
    test_features, test_labels = checked_rows(test_features, test_labels, "test")
    classes = int(train_labels.max()) + 1
    d, test_d = train_features.shape[1], test_features.shape[1]
    _require(d == test_d, f"training rows have {d} features but test rows {test_d}: use one encoder for both")
    passes = 1 if len(protocol.learning_rates) == 1 else 2

    def fit(features: Tensor, labels: Tensor, before: int) -> Probes:
        return train_probes(
            shuffled_batches(features, labels, protocol, seed), d, classes, protocol, seed,
            features.device, features.dtype, lambda done, total: tick(before * total + done, passes * total),
        )  # fmt: skip

    chosen = 0
    if passes == 2:
        heldout = every_tenth(train_labels, "rate")
        probes = fit(train_features[~heldout], train_labels[~heldout], before=0)
        correct, _ = evaluate_probes(probes, train_features[heldout], train_labels[heldout])
        chosen = int(correct.sum((1, 2)).argmax())
    probes = fit(train_features, train_labels, before=passes - 1)
    return ProbeResult(protocol.learning_rates, chosen, *evaluate_probes(probes, test_features, test_labels))


def shuffled_batches(
    features: Float[Tensor, "n d"], labels: Int64[Tensor, " n"], protocol: Protocol, seed: int = 0
) -> Batches:
    """All rows in a new order every epoch and for every seed, in batches; the last one may be smaller."""

    def batches(epoch: int) -> Iterator[tuple[Tensor, Tensor]]:
        generators = [generator_for(features.device, seed, "probe order", number, epoch) for number in protocol.seeds]
        orders = torch.stack([torch.randperm(len(labels), generator=g, device=g.device) for g in generators])
        for rows in orders.split(protocol.batch_size, dim=1):
            yield features[rows], labels[rows]

    return batches


@torch.no_grad()
def train_probes(
    batches: Batches,
    d: int,
    classes: int,
    protocol: Protocol = PAPER,
    seed: int = 0,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
    tick: Callable[[int, int], None] = lambda done, total: None,
) -> Probes:
    """Train probes on the batches of `batches(epoch)`: features [b, d] or [seeds, b, d], and labels [b] or [seeds, b].

    The batches may be made on the fly: augment images, run the frozen encoder, yield its features. The state of the
    encoder is the caller's choice: with BatchNorm in training mode, its running statistics change, and the features to
    be scored must be computed after training. Seeds that share a batch differ in their initialization only.

    Labels outside 0 … classes − 1 and features that are not finite raise ValueError at the end of their epoch.
    """
    θ, β = _initial(d, classes, protocol, seed, device, dtype), protocol.momentum
    rates = torch.tensor(protocol.learning_rates, dtype=dtype, device=device).repeat_interleave(classes)
    first, second, step = torch.zeros_like(θ), torch.zeros_like(θ), 0
    for epoch in range(protocol.epochs):
        γ = rates * protocol.decay ** sum(epoch >= fall for fall in protocol.milestones)
        labelled, rows = torch.zeros((), dtype=torch.int64, device=device), 0
        for features, labels in batches(epoch):
            X = F.pad(features.to(dtype), (0, 1), value=1.0).expand(len(θ), -1, -1)  # the 1 makes the last row a bias
            Y = (labels[..., None] == torch.arange(classes, device=device)).expand(len(θ), -1, -1)
            gradient = cross_entropy_gradient(θ, X, Y).add_(θ, alpha=protocol.weight_decay)
            step, rows, labelled = step + 1, rows + Y[..., 0].numel(), labelled + Y.sum()
            if protocol.optimizer == "adam":
                adam_step(θ, gradient, first, second, γ, step, β)
            else:
                θ.addcmul_(first.mul_(β).add_(gradient), γ, value=-1)
        _require(rows > 0, f"epoch {epoch} had no batches: yield features and labels in every epoch")
        _require(labelled.item() == rows, f"labels must be in 0 … {classes - 1}: leave out rows without a class")
        _require(bool(θ.isfinite().all()), "the probes are not finite: look for NaN or infinity in the features")
        tick(epoch + 1, protocol.epochs)
    θ = θ.unflatten(2, (-1, classes)).permute(2, 0, 1, 3)
    return Probes(weight=θ[:, :, :-1], bias=θ[:, :, -1])


@torch.no_grad()
def evaluate_probes(
    probes: Probes, features: Float[Tensor, "m d"], labels: Int[Tensor, " m"]
) -> tuple[Bool[Tensor, "rates seeds m"], Bool[Tensor, "rates seeds m"]]:
    """Whether each probe is correct, top-1 and top-5 (of all classes, if they are fewer)."""
    rates, seeds, _, classes = probes.weight.shape
    rows_at_once = max(1, SCORES_AT_ONCE // (rates * seeds * classes))
    right = []
    for X, y in zip(features.split(rows_at_once), labels.split(rows_at_once), strict=True):
        scores = torch.einsum("md,rsdc->rsmc", X.to(probes.weight.dtype), probes.weight) + probes.bias[:, :, None]
        right.append(scores.topk(min(5, classes)).indices == y[:, None])
    guesses = torch.cat(right, dim=2)
    return guesses[..., 0], guesses.any(-1)


def _initial(
    d: int, classes: int, protocol: Protocol, seed: int, device: torch.device | str, dtype: torch.dtype
) -> Float[Tensor, "seeds rows weights"]:
    """Weights and, in the last row, biases from U(−1/√d, 1/√d), as in `nn.Linear`; all rates of a seed begin alike."""
    generators = [generator_for(device, seed, "probe start", number) for number in protocol.seeds]
    u = torch.stack([torch.rand(d + 1, classes, generator=g, device=device, dtype=dtype) for g in generators])
    return ((2 * u - 1) / d**0.5).repeat(1, 1, len(protocol.learning_rates))


def every_tenth(labels: Int64[Tensor, " n"], choice: str) -> Bool[Tensor, " n"]:
    """The second, twelfth, twenty-second … row of each class: a class with a single row keeps it for training.

    ValueError without any; `choice` names the setting to be chosen by these rows.
    """
    heldout = rank_within_class(labels) % 10 == 1
    _require(bool(heldout.any()), f"to choose a {choice}, a class needs two training rows: give only one {choice}")
    return heldout
