"""The short demo: train two encoders, and measure how much of the hue each keeps and what that costs."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from care.augment.presets import hue_only
from care.data import Samples
from care.demo.lessons import HUE, Lesson
from care.demo.running import TRAIN_SAMPLES, fresh
from care.demo.time_budget import affordable, least_seconds, threads_restored
from care.evaluate import Embedder, EvaluationSetup, knn_predict, tuned_logistic
from care.evaluate.comparison.quantities import Quantity
from care.evaluate.decoding.r2 import r2_units, weighted_units
from care.evaluate.decoding.ridge import ridge_predictions
from care.evaluate.decoding.targets import factor_targets
from care.evaluate.embedder import BACKBONE, EMBEDDING, Embeddings
from care.evaluate.retrieval.color_jitter import evaluate_retrieval
from care.frozen import frozen
from care.pretrained import run_setup
from care.progress import ProgressCallback, silent
from care.train import CallbackProgress, Config, train
from care.train.job import Job

PENALTIES = (100.0, 10.0, 1.0, 0.1)  # few, since the logistic regression takes most of the measuring time
SHOWN = 4  # recolored pictures whose neighbors are drawn


@dataclass(frozen=True, eq=False)
class Kept:
    """The measurements of one encoder, by name, and the neighbors it finds for recolored pictures.

    `chance` is the hue distance of random neighbors.
    """

    config: Config
    log: Sequence[Mapping[str, Any]]
    numbers: Mapping[str, Quantity]
    chance: float
    pictures: Mapping[str, Tensor]


@dataclass(frozen=True, eq=False)
class HueDemo:
    """Encoders by name, the share of the pictures they were trained on, and how many test pictures and threads."""

    encoders: Mapping[str, Kept]
    share: float
    tested: int
    threads: int = 1


def demonstrate_hue(out: Path, seed: int = 0, lesson: Lesson = HUE, progress: ProgressCallback = silent) -> HueDemo:
    """Train and measure both encoders, in a run folder each below `out`, on as many pictures as there is time for."""
    jobs = fresh(lesson, out, seed)
    with threads_restored():
        progress("timing a few steps", 0, 1)
        share = affordable(least_seconds(list(jobs.values())))
        progress("timing a few steps", 1, 1)
        if share < 1:
            jobs = fresh(lesson.with_share(share), out, seed)
        encoders = {name: _show(name, job, progress) for name, job in jobs.items()}
        return HueDemo(encoders, share, len(next(iter(jobs.values())).heldout), torch.get_num_threads())


def _show(name: str, job: Job, progress: ProgressCallback) -> Kept:
    train(job, CallbackProgress(f"training {name}", progress))
    setup = run_setup(job.run.folder, job.config, job.samples.limit(min(TRAIN_SAMPLES, len(job.samples))), job.heldout)
    numbers, chance, pictures = measure_hue(setup, progress=lambda *_: progress(f"measuring {name}", 0, 1))
    progress(f"measuring {name}", 1, 1)
    return Kept(job.config, job.run.log(), numbers, chance, pictures)


def measure_hue(
    setup: EvaluationSetup, progress: ProgressCallback
) -> tuple[dict[str, Quantity], float, dict[str, Tensor]]:
    """Measure the class in the features, the hue in the embedding, where the losses act, and neighbors there.

    Returns (the quantities by name, the hue distance of random neighbors, recolored pictures with their neighbors).
    """
    assert setup.train is not None
    train, test = setup.embedder(setup.train), setup.embedder(setup.test)
    with frozen(setup.module):
        Z, Z_test = train.clean(), test.clean()
        retrieval, arrays = _retrieve(test, Z_test, progress)
    labels, wanted = setup.train.labels, setup.test.labels
    tuned = tuned_logistic(
        Z[BACKBONE], labels, penalties=PENALTIES, tick=lambda *_: progress("logistic regression", 0, 1)
    )
    nearest = knn_predict(Z[BACKBONE], labels, Z_test[BACKBONE])
    quantities = (
        _quantity("class", (tuned.predict(Z_test[BACKBONE]) == wanted).double(), "higher", percent=True),
        _quantity("hue", _hue_units(Z[EMBEDDING], setup.train, Z_test[EMBEDDING], setup.test), "higher"),
        _distance(retrieval, arrays),
        _quantity("hue, features", _hue_units(Z[BACKBONE], setup.train, Z_test[BACKBONE], setup.test), "higher"),
        _quantity("kNN, features", (nearest == wanted).double(), "higher", percent=True),
        _quantity("class of neighbors", arrays[f"retrieval/{EMBEDDING}/class_precision"].double(), "higher", True),
    )
    drawn = {name.removeprefix("pictures/"): some[:SHOWN] for name, some in arrays.items() if "pictures/" in name}
    return {q.name: q for q in quantities}, retrieval["hue_distance_chance"], drawn


def _retrieve(
    test: Embedder, clean: Embeddings, progress: ProgressCallback
) -> tuple[dict[str, float], dict[str, Tensor]]:
    """The neighbors, in the embedding, of pictures whose hue is shifted uniformly."""
    recolored = dataclasses.replace(test, policy=hue_only(test.policy.size))  # type: ignore[union-attr]
    found, arrays = evaluate_retrieval(recolored, {EMBEDDING: clean[EMBEDDING]}, 0, progress)
    return found["retrieval"][EMBEDDING], arrays


def _hue_units(Z: Tensor, fitted: Samples, Z_test: Tensor, tested: Samples) -> Tensor:
    """Per test picture, the numbers whose mean is the R² of the hue, decoded by a ridge regression on training ones."""
    hues, truth = (factor_targets(samples)["hue"] for samples in (fitted, tested))
    predicted = ridge_predictions(Z, hues.values.double(), hues.known[:, None].expand_as(hues.values), Z_test)
    return r2_units(truth.values, predicted)


def _quantity(name: str, units: Tensor, better: Any, percent: bool = False) -> Quantity:
    return Quantity("", name, units.nanmean().item(), better, units, percent)


def _distance(retrieval: Mapping[str, float], arrays: Mapping[str, Tensor]) -> Quantity:
    """The hue distance of neighbors, with queries weighted by how much color they have."""
    values, weight = (arrays[f"retrieval/{EMBEDDING}/hue_distance{end}"] for end in ("", "_weight"))
    return Quantity("", "hue of neighbors", retrieval["hue_distance"], "lower", weighted_units(values, weight))
