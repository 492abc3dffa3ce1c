"""Decode targets from features by ridge regression plus a network, for rows that were not trained on."""

import math
from collections.abc import Iterator

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from care.evaluate.adam import adam_step
from care.evaluate.decoding.ridge import ridge_predictions
from care.randomness import derive, generator_for

WIDTH, EPOCHS, BATCH, LEARNING_RATE = 1024, 50, 256, 1e-3
VALIDATION = 10  # one row in VALIDATION is for early stopping
PATIENCE = 8  # epochs without improvement of any target before stopping
CERTAIN = 2  # standard errors by which the network must improve on the regression


@torch.no_grad()
def network_predictions(
    X: Float[Tensor, "n f"],
    Y: Float[Tensor, "n t"],
    known: Bool[Tensor, "n t"],
    others: Float[Tensor, "m f"],
    seed: int = 0,
) -> Float[Tensor, "m t"]:
    """Predict the targets of the rows `others`: r + α (g − r), with a ridge regression r and a network g.

    Both are fitted to (X, Y) without the last tenth of the rows, on which α ∈ [0, 1] minimizes the squared error. It is
    0 for a target where this improves on r by at most two standard errors, which may be noise. The result therefore
    explains no less than a linear decoder, even if there is little to find or there are few rows to learn from.
    """
    cut = len(X) - max(2, len(X) // VALIDATION)  # a standard error needs two
    if cut < 2:
        return ridge_predictions(X, Y, known, others)
    heldout = torch.cat([X[cut:], others])
    r = ridge_predictions(X[:cut], Y[:cut], known[:cut], heldout).nan_to_num()  # NaN: too few rows are known
    change = _by_network(X, Y, known, heldout, cut, seed) - r
    error, by = (torch.where(known[cut:], one, 0) for one in (Y[cut:] - r[: len(X) - cut], change[: len(X) - cut]))
    alpha = ((error * by).sum(0) / by.square().sum(0)).nan_to_num(0).clamp(0, 1)
    gain = error.square() - (error - alpha * by).square()
    certain = gain.sum(0) > CERTAIN * gain.std(0) * math.sqrt(len(gain))
    return ridge_predictions(X, Y, known, others) + torch.where(certain, alpha * change[len(X) - cut :], 0)


def _by_network(
    X: Float[Tensor, "n f"],
    Y: Float[Tensor, "n t"],
    known: Bool[Tensor, "n t"],
    others: Float[Tensor, "m f"],
    cut: int,
    seed: int,
) -> Float[Tensor, "m t"]:
    """Predict the targets of the rows `others` by one network with two hidden layers, trained on rows before `cut`.

    For every target, the epoch with the least error on the rows from `cut` on is used.
    """
    X, others = _standardized(X[:cut], X, others)
    mean, scale = _moments(Y[:cut], known[:cut])
    Y = torch.where(known, (Y - mean) / scale, 0).float()
    model = _network(X.shape[1], Y.shape[1], seed).to(X.device)
    predicted, least = torch.zeros(len(others), Y.shape[1], device=X.device), Y[cut:].square().sum(0)
    since = 0
    for _ in _epochs(model, X[:cut], Y[:cut], known[:cut], seed):
        error = torch.where(known[cut:], model(X[cut:]) - Y[cut:], 0).square().sum(0)
        better = error < least
        since = 0 if better.any() else since + 1
        if since == PATIENCE:
            break
        if better.any():
            least, predicted = torch.minimum(error, least), torch.where(better, model(others), predicted)
    return predicted * scale + mean


def _epochs(
    model: nn.Sequential, X: Float[Tensor, "n f"], Y: Float[Tensor, "n t"], known: Bool[Tensor, "n t"], seed: int
) -> Iterator[None]:
    """Train with Adam on squared errors, at a learning rate that falls to 0; yields after every epoch."""
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
                adam_step(w, g, m, v, LEARNING_RATE * (1 - step / (steps + 1)), step)
        yield


def _network(f: int, t: int, seed: int) -> nn.Sequential:
    """A network that predicts 0, the mean of standardized targets, before it is trained."""
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
    """Mean and standard deviation of the known rows of every column; 1 in place of a deviation of 0; NaN if none."""
    count = known.sum(0)
    mean = torch.where(known, values, 0).sum(0) / count
    scale = (torch.where(known, values - mean, 0).square().sum(0) / count).sqrt()
    return mean, torch.where(scale > 0, scale, 1)
