"""Train and measure the encoders of the demo, in ordinary run folders."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jaxtyping import Float
from torch import Tensor

from care.atomic_files import remove_folder
from care.augment import PointPolicy
from care.data import Samples
from care.demo.lessons import LESSONS, MEASURES, Lesson
from care.evaluate import Evaluation, EvaluationSettings, evaluate_model
from care.evaluate.effects.orbits import orbits
from care.pretrained import run_setup
from care.progress import ProgressCallback, silent
from care.train import CallbackProgress, Config, prepare, train
from care.train.job import Job, load_samples

TRAIN_SAMPLES = 5000  # training samples that classes are learned from
CLOUDS = 6  # whose orbits are drawn: each is rotated through 360°


@dataclass(frozen=True, eq=False)
class Shown:
    """One encoder: how it was trained, how that went, what was measured, and the orbits of a few point clouds."""

    config: Config
    log: Sequence[Mapping[str, Any]]
    evaluation: Evaluation
    orbits: Float[Tensor, "clouds angles d"] | None


# Data set → what it was trained with → the encoder.
Found = dict[str, dict[str, Shown]]


def demonstrate(
    out: Path,
    seed: int = 0,
    lessons: Sequence[Lesson] = LESSONS,
    measures: EvaluationSettings = MEASURES,
    progress: ProgressCallback = silent,
) -> Found:
    """Train and measure every encoder, in a run folder each below `out`; what an earlier demo left is replaced."""
    return {
        lesson.data: {
            name: _show(job, measures, f"{name} on {lesson.data}", progress)
            for name, job in fresh(lesson, out, seed).items()
        }
        for lesson in lessons
    }


def fresh(lesson: Lesson, out: Path, seed: int) -> dict[str, Job]:
    """The jobs of a lesson, on the same samples, in new run folders below `out`; runs already there are removed."""
    configs = lesson.configs(seed)
    loaded = load_samples(next(iter(configs.values())))
    return {name: _fresh(config, out, lesson.data, name, loaded) for name, config in configs.items()}


def _fresh(config: Config, out: Path, data: str, name: str, loaded: tuple[Samples, Samples]) -> Job:
    folder = out / f"{data}-{re.sub('[^a-z0-9]+', '-', name.lower()).strip('-')}"
    if (folder / "config.toml").exists():
        remove_folder(folder)
    return prepare(config, folder, loaded=loaded)


def _show(job: Job, measures: EvaluationSettings, words: str, progress: ProgressCallback) -> Shown:
    train(job, CallbackProgress(f"training {words}", progress))
    setup = run_setup(job.run.folder, job.config, job.samples.limit(min(TRAIN_SAMPLES, len(job.samples))), job.heldout)

    def measuring(stage: str, done: int, total: int) -> None:
        if stage == "augmentations":  # which takes nearly all of the time
            progress(f"measuring {words}", done, total)

    evaluation = evaluate_model(setup, measures, measuring)
    evaluation.save(job.run.folder / "evaluation")
    are_clouds = isinstance(setup.policy, PointPolicy)
    drawn = orbits(setup.embed, setup.test.inputs[:CLOUDS]) if are_clouds else None
    return Shown(job.config, job.run.log(), evaluation, drawn)
