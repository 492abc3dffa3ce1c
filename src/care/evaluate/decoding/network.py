"""Ridge regression and a network that decode targets from features: what they predict of rows not trained on."""

import math
from collections.abc import Iterator

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from care.evaluate.decoding.ridge import ridge_predictions
from care.randomness import derive, generator_for

WIDTH, EPOCHS, BATCH, LEARNING_RATE = 1024, 50, 256, 1e-3
VALIDATION = 10  # one row in so many is for early stopping
PATIENCE = 8  # epochs in which no target improves
CERTAIN = 2  # standard errors by which a target must be predicted better than by its mean


@torch.no_grad()
def network_predictions(
    X: Float[Tensor, "n f"],
    Y: Float[Tensor, "n t"],
    known: Bool[Tensor, "n t"],
    others: Float[Tensor, "m f"],
    seed: int = 0,
) -> Float[Tensor, "m t"]:
    """Targets of the rows `others`: what ridge regression on (X, Y) predicts, plus what a network finds in its errors.

    The errors are those that the regression on one half of the rows makes in the other. So a network never explains
    less than a linear decoder does, however little there is to find and however few rows it learns from.
    """
    half = len(X) // 2
    one, two = slice(half), slice(half, None)
    crossed = [ridge_predictions(X[b], Y[b], known[b], X[a]) for a, b in ((one, two), (two, one))]
    errors = Y - torch.cat(crossed).nan_to_num()  # a target that one half hardly knows has no regression there
    return ridge_predictions(X, Y, known, others) + _found_by_network(X, errors, known, others, seed)


def _found_by_network(
    X: Float[Tensor, "n f"],
    Y: Float[Tensor, "n t"],
    known: Bool[Tensor, "n t"],
    others: Float[Tensor, "m f"],
    seed: int,
) -> Float[Tensor, "m t"]:
    """Targets of the rows `others`, by one network of two hidden layers for all targets, trained on (X, Y) where known.

    The last tenth of the rows is for early stopping: every target is predicted by the network of the epoch in which its
    error there is least, and by its mean if that is better by no more than two standard errors, which noise can be.
    """
    cut = len(X) - max(2, len(X) // VALIDATION)  # two have a standard error
    X, others = _standardized(X[:cut], X, others)
    mean, scale = _moments(Y[:cut], known[:cut])
    Y = torch.where(known, (Y - mean) / scale, 0).float()
    model = _network(X.shape[1], Y.shape[1], seed).to(X.device)
    predicted, gain = torch.zeros(len(others), Y.shape[1], device=X.device), torch.zeros_like(Y[cut:])
    since = 0
    for _ in _epochs(model, X[:cut], Y[:cut], known[:cut], seed):
        found = Y[cut:].square() - torch.where(known[cut:], model(X[cut:]) - Y[cut:], 0).square()
        better = found.sum(0) > gain.sum(0)
        since = 0 if better.any() else since + 1
        if since == PATIENCE:
            break
        if better.any():
            gain, predicted = torch.where(better, found, gain), torch.where(better, model(others), predicted)
    error = gain.std(0) * math.sqrt(len(gain))
    return torch.where(gain.sum(0) > CERTAIN * error, predicted, 0) * scale + mean


def _epochs(
    model: nn.Sequential, X: Float[Tensor, "n f"], Y: Float[Tensor, "n t"], known: Bool[Tensor, "n t"], seed: int
) -> Iterator[None]:
    """Train with Adam on squared errors, at a rate that falls to 0; yields after every epoch."""
    weights = list(model.parameters())
    moments = [(torch.zeros_like(w), torch.zeros_like(w)) for w in weights]
    step, steps = 0, EPOCHS * math.ceil(len(X) / BATCH)
    for epoch in range(EPOCHS):
        for rows in _order(len(X), epoch, seed, X.device).split(BATCH):
            with torch.enable_grad():
                error = torch.where(known[rows], model(X[rows]) - Y[rows], 0).square().mean()
                gradients = torch.autograd.grad(error, weights)
            step += 1
            for w, g, (m, v) in zip(weights, gradients, moments, strict=True):
                _adam(w, g, m, v, LEARNING_RATE * (1 - step / (steps + 1)), step)
        yield


def _adam(w: Tensor, g: Tensor, m: Tensor, v: Tensor, rate: float, step: int) -> None:
    """m ← β₁m + (1 − β₁)g, v ← β₂v + (1 − β₂)g², w ← w − rate · m̂/(√v̂ + ε). torch's own loads a compiler first."""
    m.lerp_(g, 0.1)
    v.mul_(0.999).addcmul_(g, g, value=0.001)
    unbiased = math.sqrt(1 - 0.999**step)
    w.addcdiv_(m, v.sqrt().add_(1e-8 * unbiased), value=-rate * unbiased / (1 - 0.9**step))


def _network(f: int, t: int, seed: int) -> nn.Sequential:
    """Predicts 0, the mean of standardized targets, before it is trained."""
    with torch.random.fork_rng(devices=[]):  # the global generator stays as it was
        torch.default_generator.manual_seed(derive(seed, "decoding", "network"))
        last = nn.Linear(WIDTH, t)
        model = nn.Sequential(nn.Linear(f, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH), nn.GELU(), last)
    nn.init.zeros_(last.weight)
    nn.init.zeros_(last.bias)
    return model


def _order(n: int, epoch: int, seed: int, device: torch.device) -> Int[Tensor, " n"]:
    return torch.randperm(n, generator=generator_for("cpu", seed, "decoding", "rows", epoch)).to(device)


def _standardized(fitted: Float[Tensor, "n f"], *rows: Float[Tensor, "_ f"]) -> tuple[Float[Tensor, "_ f"], ...]:
    mean, scale = _moments(fitted, torch.ones_like(fitted, dtype=torch.bool))
    return tuple(((X - mean) / scale).float() for X in rows)


def _moments(
    values: Float[Tensor, "n t"], known: Bool[Tensor, "n t"]
) -> tuple[Float[Tensor, " t"], Float[Tensor, " t"]]:
    """Mean and standard deviation of every column where it is known; 1 in place of a deviation of 0. NaN if nowhere."""
    count = known.sum(0)
    mean = torch.where(known, values, 0).sum(0) / count
    scale = (torch.where(known, values - mean, 0).square().sum(0) / count).sqrt()
    return mean, torch.where(scale > 0, scale, 1)
