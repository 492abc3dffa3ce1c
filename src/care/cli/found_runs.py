"""Find the models that `care explore` may compare: models named by the user, and runs in named folders."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from care.augment import ImagePolicy
from care.cli.errors import sentence_of
from care.objective import policy_for
from care.tables import visible
from care.train import Config
from care.train.checkpoint import STATE

INSIDE = ("*/model.safetensors", "*/*/model.safetensors")


@dataclass(frozen=True)
class FoundRun:
    """A run found in a folder, with its configuration. Its weights are not read until it is chosen."""

    path: Path
    config: Config

    @property
    def name(self) -> str:
        """The name shown on the page."""
        return visible(self.path.resolve().name)

    @property
    def policy(self) -> ImagePolicy | None:
        """The policy that makes the run's un-augmented views; None for a run on point clouds."""
        size = self.config.size or getattr(policy_for(self.config.policy), "size", None)
        policy = policy_for(self.config.equivariance_policy, size)
        return policy if isinstance(policy, ImagePolicy) else None


def find_runs(given: Sequence[str], say: Callable[[str], None]) -> tuple[list[str], list[FoundRun]]:
    """(The named models, the finished runs in named folders, sorted by path and without those that are also named).

    ValueError if a folder has no run. A run with an unreadable configuration is left out, and `say` is told.
    """
    named, found = list[str](), list[FoundRun]()
    for what in given:
        if what.startswith("timm/") or not is_folder_of_runs(Path(what)):
            named.append(what)
            continue
        paths = sorted(file.parent for pattern in INSIDE for file in Path(what).glob(pattern))
        runs = [run for run in (_found(path, say) for path in paths) if run is not None]
        if not runs:
            raise ValueError(f"there is no finished run in {what}: care train --out {what}/NAME makes one")
        found += runs
    already = {Path(run).resolve() for run in named}
    return named, [run for run in found if run.path.resolve() not in already]


def _found(path: Path, say: Callable[[str], None]) -> FoundRun | None:
    """Read a run's configuration without importing a method of the user's own: its encoder does not need that code."""
    file = path / "config.toml"
    try:
        return FoundRun(path, Config.from_toml(file.read_text(encoding="utf-8-sig"), str(file), unchecked=True))
    except (ValueError, OSError) as error:
        say(f"{path} is left out: {sentence_of(error)}")
        return None


def is_folder_of_runs(path: Path) -> bool:
    """Whether it is a folder, and neither a run nor a checkpoint."""
    inside = ("model.safetensors", "config.toml", STATE)
    return path.is_dir() and not any((path / name).exists() for name in inside)


def runs_on(found: Sequence[FoundRun], data: str) -> list[FoundRun]:
    """The image runs that were trained on a data set, or all image runs if none was: they can embed it, too."""
    images = [run for run in found if run.policy is not None]
    return [run for run in images if run.config.data == data] or images
