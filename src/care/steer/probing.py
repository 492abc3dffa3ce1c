"""Probes on embeddings, least squares and a small network, scored on images that they were not trained on.

Every image has several rows. Each half of the images is predicted by a probe that was trained on the other half.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from care.evaluate.comparison.paired import Difference, paired_difference
from care.evaluate.decoding.ridge import fit_ridge
from care.randomness import derive, generator_for

WIDTH, STEPS, BATCH, LEARNING_RATE = 128, 300, 256, 3e-3
VALIDATED = 15  # steps between validations
PATIENCE = 8  # validations without improvement
VALIDATION = 5  # one image in VALIDATION is for early stopping

Predict = Callable[[Tensor], Tensor]
# Features [n, r, f] and targets [n, r, t] of n images → a function that predicts targets from rows of features.
Fit = Callable[[Tensor, Tensor], Predict]


def crossfit(X: Float[Tensor, "n r f"], Y: Float[Tensor, "n r t"], fit: Fit, seed: int) -> Float[Tensor, "n r t"]:
    """Predictions for n images with r rows each, by the probe that was trained on the half without the image."""
    order = torch.randperm(len(X), generator=generator_for("cpu", seed, "halves")).to(X.device)
    predicted = torch.zeros_like(Y)
    for train, test in ((order[0::2], order[1::2]), (order[1::2], order[0::2])):
        predict = fit(X[train], Y[train])
        predicted[test] = predict(X[test].flatten(0, 1)).to(Y).unflatten(0, (len(test), -1))
    return predicted


def least_squares(X: Float[Tensor, "n r f"], Y: Float[Tensor, "n r t"]) -> Predict:
    """Ridge regression with the penalty of the least leave-one-image-out error."""
    return fit_ridge(X.flatten(0, 1), Y.flatten(0, 1), rows_per_image=X.shape[1]).predict


def network(seed: int) -> Fit:
    """Least squares plus a network with two hidden layers on the residual, with early stopping.

    If the network never improves the validation rows, least squares alone remain. Neither is fitted to the validation
    images: least squares would leave too small a residual there, and the network would stop too late. Afterwards, least
    squares are refitted to all images.
    """

    def fit(images: Float[Tensor, "n r f"], targets: Float[Tensor, "n r t"]) -> Predict:
        cut = len(images) - max(1, len(images) // VALIDATION)
        partial = least_squares(images[:cut], targets[:cut])
        X, Y = images.flatten(0, 1), targets.flatten(0, 1)
        (mean, scale), spread = _standard(X), _standard(Y)[1]
        left = ((Y - partial(X)) / spread).float()
        model = _network(X.shape[1], Y.shape[1], seed).to(X.device)
        _train(model, (X.float() - mean) / scale, left, cut * images.shape[1], seed)
        linear = least_squares(images, targets)
        return lambda others: linear(others) + model((others.float() - mean) / scale) * spread

    return fit


def interval(units: Float[Tensor, " n"]) -> Difference:
    """The mean over images with its interval."""
    return paired_difference(torch.zeros_like(units), units)


def _standard(X: Float[Tensor, "rows f"]) -> tuple[Float[Tensor, " f"], Float[Tensor, " f"]]:
    mean, scale = X.float().mean(0), X.float().std(0)
    return mean, torch.where(scale > 0, scale, 1.0)


def _network(f: int, t: int, seed: int) -> nn.Sequential:
    with torch.random.fork_rng(devices=[]):  # the global generator stays as it was
        torch.default_generator.manual_seed(derive(seed, "probe"))
        last = nn.Linear(WIDTH, t)
        model = nn.Sequential(nn.Linear(f, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), last)
    nn.init.zeros_(last.weight)
    nn.init.zeros_(last.bias)
    return model


@torch.enable_grad()
def _train(model: nn.Sequential, X: Float[Tensor, "rows f"], Y: Float[Tensor, "rows t"], cut: int, seed: int) -> None:
    """Adam on squared errors; keeps the weights with the lowest error on the rows from `cut` on, of other images."""
    adam = torch.optim.Adam(model.parameters(), LEARNING_RATE, weight_decay=1e-4, fused=True)
    best, least, since = _state(model), Y[cut:].square().mean().item(), 0
    for step, rows in enumerate(_batches(cut, seed), start=1):
        adam.param_groups[0]["lr"] = LEARNING_RATE * (1 - step / (STEPS + 1))
        loss = (model(X[rows]) - Y[rows]).square().mean()
        adam.zero_grad()
        loss.backward()
        adam.step()
        if step % VALIDATED == 0:
            error, since = (model(X[cut:]) - Y[cut:]).square().mean().item(), since + 1
            if error < least:
                best, least, since = _state(model), error, 0
            if since == PATIENCE:
                break
    model.load_state_dict(best)
    model.requires_grad_(False)


def _state(model: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


def _batches(n: int, seed: int) -> list[Int[Tensor, " batch"]]:
    generator = generator_for("cpu", seed, "probe", "rows")
    return [torch.randint(n, (min(BATCH, n),), generator=generator) for _ in range(STEPS)]
