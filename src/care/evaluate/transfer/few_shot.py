"""Few-shot classification: many small tasks of a few classes, solved together."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Float, Float64, Int, Int64
from torch import Tensor

from care.randomness import generator_for

WAYS, QUERIES, TASKS = 5, 16, 2000
SHOTS = (1, 5)

TASKS_AT_ONCE = 100  # a task of five shots takes a megabyte
ROUNDING = 1e-6  # above that of float32 inner products: a support of fewer dimensions than images makes K singular
TOLERANCE = 1e-9  # of the gradient, whose terms are of order 1
MOST_STEPS = 50


def few_shot(
    features: Float[Tensor, "n d"],
    labels: Int[Tensor, " n"],
    shots: int,
    tasks: int = TASKS,
    seed: int = 0,
    tick: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, Float64[Tensor, " tasks"]]:
    """The accuracy in every task of "logistic" regression and of the nearest "centroid".

    A task draws 5 classes and, for each class, `shots` images to fit to and 16 to classify. Features are normalized to
    unit length; the logistic regression has the penalty 1. The same seed draws the same tasks for every model.
    """
    if (why_not := too_few_images(labels, shots)) is not None:
        raise ValueError(why_not)
    members, counts = _members(labels, shots + QUERIES)
    unit, generator = F.normalize(features.float()), generator_for("cpu", seed, "few-shot", shots)
    answers = torch.arange(WAYS, device=features.device).repeat_interleave(QUERIES)
    found: dict[str, list[Tensor]] = {"logistic": [], "centroid": []}
    for start in range(0, tasks, TASKS_AT_ONCE):
        rows = draw_tasks(members, counts, min(TASKS_AT_ONCE, tasks - start), shots, generator).to(features.device)
        support, queries = unit[rows[:, :, :shots].flatten(1)], unit[rows[:, :, shots:].flatten(1)]
        K, k = (support @ support.mT).double(), (queries @ support.mT).double()
        for name, scores in {"logistic": logistic_scores(K, k), "centroid": centroid_scores(K, k)}.items():
            found[name].append((scores.argmax(2) == answers).double().mean(1))
        tick(min(start + TASKS_AT_ONCE, tasks), tasks)
    return {name: torch.cat(parts) for name, parts in found.items()}


def too_few_images(labels: Int[Tensor, " n"], shots: int) -> str | None:
    """A sentence saying why no task can be drawn, or None."""
    needed = shots + QUERIES
    classes = int((torch.bincount(labels) >= needed).sum())
    if classes >= WAYS:
        return None
    return f"tasks of {WAYS} ways and {shots} shots need {WAYS} classes of {needed} images each: there are {classes}"


def draw_tasks(
    members: Int64[Tensor, "classes most"],
    counts: Int64[Tensor, " classes"],
    tasks: int,
    shots: int,
    generator: torch.Generator,
) -> Int64[Tensor, "tasks ways images"]:
    """Rows of `shots` + 16 different images of 5 different classes, per task; class c has the rows members[c, :n_c]."""
    classes = torch.rand(tasks, len(members), generator=generator).argsort(1)[:, :WAYS]
    order = torch.rand(tasks, WAYS, members.shape[1], generator=generator)
    order[torch.arange(members.shape[1]) >= counts[classes][:, :, None]] = torch.inf
    return members[classes].gather(2, order.topk(shots + QUERIES, dim=2, largest=False, sorted=True).indices)


def _members(labels: Int[Tensor, " n"], needed: int) -> tuple[Int64[Tensor, "classes most"], Int64[Tensor, " classes"]]:
    """The rows of every class with at least `needed` rows, padded with 0, and their number."""
    rows = [(labels == label).nonzero()[:, 0] for label in labels.unique()]
    enough = [of_class.cpu() for of_class in rows if len(of_class) >= needed]
    counts = torch.tensor([len(of_class) for of_class in enough])
    return torch.nn.utils.rnn.pad_sequence(enough, batch_first=True), counts


def centroid_scores(
    K: Float64[Tensor, "tasks s s"], k: Float64[Tensor, "tasks q s"]
) -> Float64[Tensor, "tasks q ways"]:
    """2 x·μ_c − ‖μ_c‖², largest for the nearest class mean μ_c of the support.

    K holds the inner products within the support, k those of queries with it, ordered by class.
    """
    to_means = k.unflatten(2, (WAYS, -1)).mean(3)
    among_means = K.unflatten(2, (WAYS, -1)).mean(3).unflatten(1, (WAYS, -1)).mean(2)
    return 2 * to_means - among_means.diagonal(dim1=1, dim2=2)[:, None]


def logistic_scores(
    K: Float64[Tensor, "tasks s s"], k: Float64[Tensor, "tasks q s"]
) -> Float64[Tensor, "tasks q ways"]:
    """The scores of a logistic regression that is fitted to the support of each task.

    Its weights lie in the span of the support, so s coordinates suffice, however many features there are. With K = LLᵀ,
    the support has the coordinates L, and the queries kL⁻ᵀ.
    """
    L = torch.linalg.cholesky(K + ROUNDING * torch.eye(K.shape[1], dtype=K.dtype, device=K.device))
    labels = torch.arange(WAYS, device=K.device).repeat_interleave(K.shape[1] // WAYS)
    θ = _minimize(_with_one(L), F.one_hot(labels, WAYS).double())
    return _with_one(torch.linalg.solve_triangular(L, k.mT, upper=False).mT) @ θ


def _minimize(X: Float64[Tensor, "tasks s p"], Y: Float64[Tensor, "s ways"]) -> Float64[Tensor, "tasks p ways"]:
    """min_θ Σᵢ −log softmax(Xθ)_{yᵢ} + ½‖W‖², where θ is W with the biases in its last row, by Newton's method.

    Adding a constant to all biases changes nothing, so a little is added to the curvature to make it invertible.
    """
    tasks, _, p = X.shape
    θ, penalty = X.new_zeros(tasks, p, Y.shape[1]), torch.ones_like(X[0, 0])
    penalty[-1] = 0
    more = (penalty + 1e-9).repeat_interleave(Y.shape[1])
    for _ in range(MOST_STEPS):
        probability = (X @ θ).softmax(2)
        gradient = X.mT @ (probability - Y) + penalty[:, None] * θ
        if gradient.abs().max() < TOLERANCE:
            break
        spread = torch.diag_embed(probability) - probability[:, :, :, None] * probability[:, :, None, :]
        curvature = torch.einsum("tsi,tsj,tsab->tiajb", X, X, spread).reshape(tasks, len(more), len(more))
        curvature.diagonal(dim1=1, dim2=2).add_(more)
        factor = torch.linalg.cholesky(curvature)
        θ = θ - torch.cholesky_solve(gradient.reshape(tasks, -1, 1), factor).reshape(θ.shape)
    return θ


def _with_one(X: Float64[Tensor, "tasks s p"]) -> Float64[Tensor, "tasks s p+1"]:
    return torch.cat([X, torch.ones_like(X[:, :, :1])], dim=2)
