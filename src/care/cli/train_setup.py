"""What the options of `care train` amount to: a configuration, a folder, and who watches."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from care.data import load
from care.data.heldout import usual_validation
from care.data.registry import is_streamed, known_splits
from care.pretraining import with_kept
from care.train import Config, Progress, recipe, recommended_config

SECONDS_OF_SILENCE = 3.0


@contextmanager
def patience(data: str | None, say: Callable[[str], object]) -> Iterator[None]:
    """Say after some seconds that pictures are being found, once for all processes: a million take a while."""
    line = f"finding the pictures in {data} …"
    timer = threading.Timer(SECONDS_OF_SILENCE, say, [line])
    timer.daemon = True
    if data is not None and is_streamed(data) and os.environ.get("RANK", "0") == "0":
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


def configuration(
    chosen: dict[str, Any], keep: str | None, config: Path | None, recipe_name: str | None, resumed: Path | None
) -> Config:
    """The configuration that the options amount to."""
    if keep is not None:
        chosen = with_kept(keep, chosen, lambda asked: resolve(asked, config, recipe_name, resumed))
    return resolve(chosen, config, recipe_name, resumed)


def resolve(chosen: dict[str, Any], config: Path | None, recipe_name: str | None, resumed: Path | None) -> Config:
    """What was chosen, in place of the values of a file, of a recipe, of the run that is resumed, or of the paper."""
    sources = [name for name, given in (("--config", config), ("--recipe", recipe_name)) if given is not None]
    if len(sources) > 1:
        raise ValueError(f"{' and '.join(sources)} cannot go together")
    if config is not None:
        return Config.read(config).replace(**chosen)
    if recipe_name is not None:
        return recipe(recipe_name).replace(**chosen)
    if resumed is not None and (resumed / "config.toml").exists():
        return Config.read(resumed / "config.toml").replace(**chosen)
    if resumed is not None and "data" not in chosen:
        raise ValueError(f"there is no run to resume in {resumed}: say what to train on there, such as --data shapes")
    return recommended_config(**{**_held_out(**chosen), **chosen})


def _held_out(data: str, split: str = "train", validation: int | None = None, **_: Any) -> dict[str, int]:
    """Some samples to watch, where the data has no others and it is not said how many."""
    if validation is not None or {"test", "val"} & set(known_splits(data)):
        return {}
    return {"validation": usual_validation(load(data, split))}


def run_folder(settings: Config, recipe_name: str | None) -> Path:
    """The default folder for a run: the name of the recipe, or of the data set and what it is trained with."""
    choices = (choice.name for choice in (settings.equivariance, settings.method) if choice.name != "none")
    words = (Path(settings.data).name, *(name.rpartition(":")[2] for name in choices))
    return Path("runs") / (recipe_name or "-".join(words))


class Counted(Progress):
    """Counts the steps that are made: none, if the run that is resumed was at its end."""

    steps = 0

    def step(self, *_: Any) -> None:
        """Count it."""
        self.steps += 1
