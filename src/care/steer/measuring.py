"""Measure R(θ) on images and augmentations to which it was not fitted."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from care.augment import Parameters, coordinates
from care.evaluate.effects.effect import PerAugmentation
from care.evaluate.effects.families import Family
from care.evaluate.effects.prediction import predict_by_identity, prediction_measures
from care.evaluate.embedder import Embedder
from care.geometry import crossfit_predictions, crossfit_rotations, displacement, relative_error, solve_wahba
from care.progress import ProgressCallback, silent
from care.randomness import derive
from care.steer.learned_rotation import LearnedRotation
from care.steer.predictor import Predictor
from care.steer.result import IDENTITY, LEARNED, MAPS, PREDICTOR, PROCRUSTES, FamilyResult, PooledRatio, RotationResult

IMAGES_RANKED = 500
QUERIES = 20  # timed queries
RANKS = ("mrr", "hit_at_1", "hit_at_5")
TARGET = "target"  # f(a(x)) itself, beside its predictions

# f(x) of all images and θ [1, k] of one augmentation → predictions of f(a(x)).
Map = Callable[[Tensor, Tensor], Tensor]


def measure_rotations(
    embedder: Embedder,
    output: str,
    families: Sequence[Family],
    rotations: Mapping[str, LearnedRotation],
    predictor: Predictor,
    seed: int = 0,
    progress: ProgressCallback = silent,
) -> list[RotationResult]:
    """Measure every family with other augmentations than `statistics_of` drew; pass an embedder of other images.

    `rotations` are rotations of one model by title; every augmented image is embedded once. Per-augmentation Procrustes
    is solved in the basis of the learned rotation.
    """
    F, predictor = embedder.points(embedder.clean())[output], predictor.to(embedder.device)
    benches = [_Bench(F, rotation.to(embedder.device), predictor) for rotation in rotations.values()]
    found: list[dict[str, FamilyResult]] = [{} for _ in benches]
    for i, family in enumerate(families, start=1):
        views = _embed_family(embedder, output, family, derive(seed, "steered"))
        for bench, results in zip(benches, found, strict=True):
            results[family.name] = _measure_family(bench, views)
        progress("families measured", i, len(families))
    return [
        bench.result(title, output, embedder.policy_name, results)
        for title, bench, results in zip(rotations, benches, found, strict=True)
    ]


@dataclass(frozen=True, eq=False)
class _Views:
    """One family: augmentations a with F_a = f(a(x)); for the first ones, also b with f(b(x)) and f(b(a(x)))."""

    a: Parameters
    b: Parameters
    F_a: list[Float[Tensor, "n d"]]
    F_b: list[Float[Tensor, "n d"]]
    F_ba: list[Float[Tensor, "n d"]]


def _embed_family(embedder: Embedder, output: str, family: Family, seed: int) -> _Views:
    """Embed one family. b applies to the views that a produces, so b(x) is b of the clean view."""
    input_shape = embedder.samples.input_shape
    a, b = family.draw(input_shape, seed), family.draw_second(input_shape, seed)
    clean = embedder.policy.unchanged(1, input_shape)  # type: ignore[arg-type]

    def points(*augmentations: Parameters) -> Float[Tensor, "n d"]:
        return embedder.points(embedder.augmented(*augmentations))[output]

    return _Views(
        a,
        b,
        F_a=[points(a[i]) for i in range(family.count)],
        F_b=[points(clean, b[i]) for i in range(family.pairs)],
        F_ba=[points(a[i], b[i]) for i in range(family.pairs)],
    )


class _Bench:
    """The embeddings F = f(x), and the `maps` to measure: each predicts f(a(x)) from f(x) and the augmentation's θ."""

    def __init__(self, F: Float[Tensor, "n d"], rotation: LearnedRotation, predictor: Predictor) -> None:
        self.F, self.rotation, self.basis = F, rotation, rotation.basis
        self.maps: dict[str, Map] = {
            LEARNED: rotation.rotate_by,
            PREDICTOR: lambda z, theta: predictor(z, theta.expand(len(z), -1)),
        }

    def procrustes(self, F_a: Float[Tensor, "n d"]) -> Float[Tensor, "2 m m"]:
        """The Procrustes solution for each half of the images, fitted to the other half."""
        return crossfit_rotations(self.F @ self.basis, F_a @ self.basis)

    def rotated(self, R: Float[Tensor, "2 m m"]) -> Float[Tensor, "n d"]:
        """R f(x), with the rotation fitted to the other half."""
        Y = self.F @ self.basis
        return self.F + (crossfit_predictions(Y, R) - Y) @ self.basis.mT

    def result(self, title: str, output: str, policy: str, found: Mapping[str, FamilyResult]) -> RotationResult:
        """All measurements, and the time per query."""
        (n, d), rank = self.F.shape, self.basis.shape[1]
        times, order = _milliseconds(self, len(self.rotation.names)), 2 if self.rotation.products else 1
        return RotationResult(title, output, policy, n, d, rank, order, found, times)


@torch.no_grad()
def _measure_family(bench: _Bench, seen: _Views) -> FamilyResult:
    F, center = bench.F, bench.rotation.center
    displacements, views = [], []
    ratio, composition = _Ratios(), _Ratios()
    for i, F_a in enumerate(seen.F_a):
        theta, R = coordinates(seen.a[i], center).to(F), bench.procrustes(F_a)
        predicted = {name: predict(F, theta) for name, predict in bench.maps.items()} | {PROCRUSTES: bench.rotated(R)}
        displacements.append(displacement(F, F_a))
        views.append({name: points[:IMAGES_RANKED] for name, points in {**predicted, TARGET: F_a}.items()})
        ratio.add(predicted, F, F_a)
        if i < len(seen.F_ba):
            composition.add(_composed(bench, theta, R, seen.b[i], seen.F_b[i]), F, seen.F_ba[i])
    return FamilyResult(
        _per_augmentation(displacements), ratio.found(), composition.found(), _ranks(views, F[:IMAGES_RANKED])
    )


class _Ratios:
    """Collects ‖predicted − F_a‖² / ‖F_a − F‖² on held-out images, of every map for every augmentation."""

    def __init__(self) -> None:
        self.values: dict[str, list[float]] = {name: [] for name in MAPS}
        self.weights: list[float] = []

    def add(self, predicted: Mapping[str, Tensor], F: Float[Tensor, "n d"], F_a: Float[Tensor, "n d"]) -> None:
        for name in MAPS:
            self.values[name].append(float(relative_error(predicted[name], F, F_a, "SO")))
        self.weights.append(float((F_a - F).square().sum(1).mean()))

    def found(self) -> dict[str, PooledRatio]:
        return {name: PooledRatio(tuple(values), tuple(self.weights)) for name, values in self.values.items()}


def _composed(
    bench: _Bench, theta: Float[Tensor, "1 k"], R: Float[Tensor, "2 m m"], b: Parameters, F_b: Float[Tensor, "n d"]
) -> dict[str, Float[Tensor, "n d"]]:
    """Predictions of f(b(a(x))) from f(x)."""
    then = coordinates(b, 1.0).to(bench.F)
    found = {name: predict(predict(bench.F, theta), then) for name, predict in bench.maps.items()}
    return found | {PROCRUSTES: bench.rotated(bench.procrustes(F_b) @ R)}


def _ranks(views: Sequence[Mapping[str, Tensor]], F: Float[Tensor, "n d"]) -> dict[str, dict[str, float]]:
    """MRR, H@1 and H@5 of every map and of the identity; empty if there is only one view."""
    if len(views) < 2:
        return {}
    target = torch.stack([view[TARGET] for view in views])
    predictions = {name: torch.stack([view[name] for view in views]) for name in MAPS}
    predictions[IDENTITY] = predict_by_identity(F, len(target))
    measured = {name: prediction_measures(predicted, F, target) for name, predicted in predictions.items()}
    return {name: {measure: getattr(p, measure) for measure in RANKS} for name, p in measured.items()}


def _per_augmentation(values: Sequence[Tensor]) -> PerAugmentation:
    return PerAugmentation(tuple(float(value) for value in values))


@torch.no_grad()
def _milliseconds(bench: _Bench, k: int) -> dict[str, float]:
    """The median time of one query: one embedding and one new augmentation."""
    z, theta = bench.F[:1], torch.full((1, k), 0.1).to(bench.F)
    source = bench.F[: len(bench.F) // 2] @ bench.basis
    target = source.flip(0)
    calls: dict[str, Callable[[], object]] = {
        LEARNED: lambda: bench.maps[LEARNED](z, theta),
        PREDICTOR: lambda: bench.maps[PREDICTOR](z, theta),
        PROCRUSTES: lambda: (z @ bench.basis) @ solve_wahba(source, target).mT @ bench.basis.mT,
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
