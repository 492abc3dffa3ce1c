"""Measure a steering on images and augmentations that it was not fitted to."""

import time
from collections.abc import Callable, Mapping, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from care.augment import Parameters, coordinates
from care.evaluate.effects.effect import Spread
from care.evaluate.effects.families import Family, Watch
from care.evaluate.effects.prediction import predict_by_identity, prediction_measures
from care.evaluate.observer import Observer
from care.geometry import crossfit_predictions, crossfit_rotations, displacement, solve_wahba
from care.randomness import derive
from care.steer.predictor import Predictor
from care.steer.result import IDENTITY, MAPS, ORACLE, PREDICTOR, STEERING, Steered, SteeringResult, Unexplained
from care.steer.steering import Steering

IMAGES_RANKED = 500
QUERIES = 20  # timed
RANKS = ("mrr", "hit_at_1", "hit_at_5")
SEEN = "seen"  # stands for f(a(x)) itself, beside what predicts it

# f(x) of all images and θ [1, k] of one augmentation → predictions of f(a(x)).
Map = Callable[[Tensor, Tensor], Tensor]


def measure_steering(
    observer: Observer,
    output: str,
    families: Sequence[Family],
    steering: Steering,
    predictor: Predictor,
    model: str,
    seed: int = 0,
    watch: Watch | None = None,
) -> SteeringResult:
    """Every family, with augmentations that `gather` did not draw. Pass an observer of images that it did not see.

    The oracle turns in the same directions as the steering.
    """
    bench = _Bench(observer, output, steering.to(observer.device), predictor.to(observer.device))
    found = {}
    for i, part in enumerate(families, start=1):
        found[part.name] = _measure_family(bench, part, derive(seed, "steered"))
        if watch is not None:
            watch("families measured", i, len(families))
    (n, d), rank = bench.F.shape, steering.basis.shape[1]
    times, order = _milliseconds(bench, len(steering.names)), 2 if steering.products else 1
    return SteeringResult(model, output, observer.policy_name, n, d, rank, order, found, times)


class _Bench:
    """What is measured, and on what: F holds f(x), `maps` predict f(a(x)) from f(x) and θ of the augmentation."""

    def __init__(self, observer: Observer, output: str, steering: Steering, predictor: Predictor) -> None:
        self.observer, self.output = observer, output
        self.center, self.basis = steering.center, steering.basis
        self.F = self.points(observer.policy.unchanged(1, observer.samples.source))  # type: ignore[arg-type]
        self.maps: dict[str, Map] = {
            STEERING: steering.turn_by,
            PREDICTOR: lambda z, theta: predictor(z, theta.expand(len(z), -1)),
        }

    def points(self, *augmentations: Parameters) -> Float[Tensor, "n d"]:
        """The embeddings under augmentations, the first of them first."""
        return self.observer.points(self.observer.augmented(*augmentations))[self.output]

    def oracle(self, F_a: Float[Tensor, "n d"]) -> Float[Tensor, "2 m m"]:
        """The rotations of the two halves of the images, each fitted to the other half."""
        return crossfit_rotations(self.F @ self.basis, F_a @ self.basis)

    def turned(self, R: Float[Tensor, "2 m m"]) -> Float[Tensor, "n d"]:
        """f(x) turned by the oracle's rotations, each where it was not fitted."""
        Y = self.F @ self.basis
        return self.F + (crossfit_predictions(Y, R) - Y) @ self.basis.mT


@torch.no_grad()
def _measure_family(bench: _Bench, part: Family, seed: int) -> Steered:
    source, F = bench.observer.samples.source, bench.F
    a, b = part.draw(source, seed), part.draw_second(source, seed)
    moved, views = [], []
    ratio, composition = _Shares(), _Shares()
    for i in range(part.count):
        F_a, theta = bench.points(a[i]), coordinates(a[i], bench.center).to(F)
        R = bench.oracle(F_a)
        predicted = {name: move(F, theta) for name, move in bench.maps.items()} | {ORACLE: bench.turned(R)}
        moved.append(displacement(F, F_a))
        views.append({name: points[:IMAGES_RANKED] for name, points in {**predicted, SEEN: F_a}.items()})
        ratio.add(predicted, F, F_a)
        if i < part.pairs:
            composition.add(_composed(bench, theta, R, b[i]), F, bench.points(a[i], b[i]))
    return Steered(_spread(moved), ratio.found(), composition.found(), _ranks(views, F[:IMAGES_RANKED]))


class _Shares:
    """What every map left unexplained of every augmentation so far."""

    def __init__(self) -> None:
        self.values: dict[str, list[float]] = {name: [] for name in MAPS}
        self.effects: list[float] = []

    def add(self, predicted: Mapping[str, Tensor], F: Float[Tensor, "n d"], F_a: Float[Tensor, "n d"]) -> None:
        for name in MAPS:
            self.values[name].append(float(_ratio(predicted[name], F, F_a)))
        self.effects.append(float((F_a - F).square().sum(1).mean()))

    def found(self) -> dict[str, Unexplained]:
        return {name: Unexplained(tuple(values), tuple(self.effects)) for name, values in self.values.items()}


def _composed(
    bench: _Bench, theta: Float[Tensor, "1 k"], R: Float[Tensor, "2 m m"], b: Parameters
) -> dict[str, Float[Tensor, "n d"]]:
    """Predictions of f(b(a(x))) from f(x). b acts on the view that a gives, the whole of it."""
    still = bench.observer.policy.unchanged(1, bench.observer.samples.source)  # type: ignore[arg-type]
    then = coordinates(b, 1.0).to(bench.F)
    found = {name: move(move(bench.F, theta), then) for name, move in bench.maps.items()}
    return found | {ORACLE: bench.turned(bench.oracle(bench.points(still, b)) @ R)}


def _ratio(predicted: Float[Tensor, "n d"], F: Float[Tensor, "n d"], F_a: Float[Tensor, "n d"]) -> Float[Tensor, ""]:
    """‖predicted − F_a‖² / ‖F_a − F‖², or NaN where nothing moved, as in `heldout_ratio`."""
    displacement = (F_a - F).square().sum()
    ratio = (predicted - F_a).square().sum() / displacement
    return torch.where(displacement > torch.finfo(F.dtype).eps * F.square().sum(), ratio, torch.nan)


def _ranks(views: Sequence[Mapping[str, Tensor]], F: Float[Tensor, "n d"]) -> dict[str, dict[str, float]]:
    """MRR, H@1 and H@5 of every map and of the un-steered query; nothing where there is but one view."""
    if len(views) < 2:
        return {}
    seen = torch.stack([view[SEEN] for view in views])
    predictions = {name: torch.stack([view[name] for view in views]) for name in MAPS}
    predictions[IDENTITY] = predict_by_identity(F, len(seen))
    measured = {name: prediction_measures(predicted, F, seen) for name, predicted in predictions.items()}
    return {name: {measure: getattr(p, measure) for measure in RANKS} for name, p in measured.items()}


def _spread(values: Sequence[Tensor]) -> Spread:
    return Spread(tuple(float(value) for value in values))


@torch.no_grad()
def _milliseconds(bench: _Bench, k: int) -> dict[str, float]:
    """The median time of one query: an embedding and an augmentation that was not asked for before."""
    z, theta = bench.F[:1], torch.full((1, k), 0.1).to(bench.F)
    source = bench.F[: len(bench.F) // 2] @ bench.basis
    target = source.flip(0)
    calls: dict[str, Callable[[], object]] = {
        STEERING: lambda: bench.maps[STEERING](z, theta),
        PREDICTOR: lambda: bench.maps[PREDICTOR](z, theta),
        ORACLE: lambda: (z @ bench.basis) @ solve_wahba(source, target).mT @ bench.basis.mT,
    }
    return {name: 1000 * _median_seconds(call, z.device) for name, call in calls.items()}


def _median_seconds(call: Callable[[], object], device: torch.device) -> float:
    seconds = []
    for _ in range(QUERIES):
        started = time.perf_counter()
        call()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        seconds.append(time.perf_counter() - started)
    return sorted(seconds)[QUERIES // 2]
