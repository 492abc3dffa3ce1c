"""Train and measure: the run folders of the demo are like all others."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jaxtyping import Float
from torch import Tensor

from care.atomic_files import remove_folder
from care.augment import PointPolicy
from care.demo.lessons import LESSONS, MEASURES, Lesson
from care.evaluate import Evaluation, Settings, evaluate_model
from care.evaluate.effects.families import Watch
from care.evaluate.effects.orbits import orbits
from care.pretrained import run_study
from care.train import CallbackProgress, Config, Run, prepare, train

BANK = 5000  # training samples that classes are learned from
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
    measures: Settings = MEASURES,
    watch: Watch = lambda *words: None,
) -> Found:
    """Train and measure every encoder, in a run folder each below `out`; what an earlier demo left is replaced."""
    found: Found = {}
    for lesson in lessons:
        found[lesson.data], configs = {}, lesson.configs(seed)
        for name, config in configs.items():
            run = Run(out / f"{lesson.data}-{name.lower().replace(',', '').replace(' ', '-')}")
            found[lesson.data][name] = _show(config, run, measures, f"{name} on {lesson.data}", watch)
    return found


def _show(config: Config, run: Run, measures: Settings, words: str, watch: Watch) -> Shown:
    if (run.folder / "config.toml").exists():
        remove_folder(run.folder)
    job = prepare(config, run.folder)
    train(job, CallbackProgress(f"training {words}", watch))
    study = run_study(run.folder, config, job.samples.limit(min(BANK, len(job.samples))), job.heldout)

    def measuring(stage: str, done: int, total: int) -> None:
        if stage == "augmentations":  # which takes nearly all of the time
            watch(f"measuring {words}", done, total)

    evaluation = evaluate_model(study, measures, measuring)
    evaluation.save(run.folder / "evaluation")
    are_clouds = isinstance(study.policy, PointPolicy)
    drawn = orbits(study.embed, study.test.inputs[:CLOUDS]) if are_clouds else None
    return Shown(config, run.log(), evaluation, drawn)
