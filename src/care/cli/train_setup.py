"""Turn the options of `care train` into a configuration and a run folder."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from care.cli.errors import as_options
from care.pretraining import with_kept
from care.train import Config, Progress, Terminal, fitted_config, recipe

SECONDS_OF_SILENCE = 3.0


def patience(say: Callable[[str], object]) -> Callable[[Path], AbstractContextManager[None]]:
    """Around each search for pictures: print a line if it takes more than some seconds, as that for a million does.

    It is printed once, and by the first of several processes.
    """
    first, said = os.environ.get("RANK", "0") == "0", set[Path]()

    def tell(folder: Path) -> None:
        if folder not in said:
            said.add(folder)
            say(f"finding the pictures in {folder} …")

    @contextmanager
    def waiting(folder: Path) -> Iterator[None]:
        timer = threading.Timer(SECONDS_OF_SILENCE, tell, [folder])
        timer.daemon = True
        if first:
            timer.start()
        try:
            yield
        finally:
            timer.cancel()

    return waiting


def configuration(
    chosen: dict[str, Any], keep: str | None, config: Path | None, recipe_name: str | None, resumed: Path | None
) -> Config:
    """Build the configuration from the options."""
    if keep is not None:
        chosen = with_kept(keep, chosen, lambda asked: resolve(asked, config, recipe_name, resumed))
    return resolve(chosen, config, recipe_name, resumed)


def resolve(chosen: dict[str, Any], config: Path | None, recipe_name: str | None, resumed: Path | None) -> Config:
    """Override the values of a file, a recipe, the resumed run, or else the recommended ones, with what was chosen."""
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
    return fitted_config(**chosen)


def run_folder(settings: Config, recipe_name: str | None) -> Path:
    """The default folder for a run, named after the recipe, or after the data set, equivariance and method."""
    choices = (choice.name for choice in (settings.equivariance, settings.method) if choice.name != "none")
    words = (Path(settings.data).name, *(name.rpartition(":")[2] for name in choices))
    return Path("runs") / (recipe_name or "-".join(words))


class CommandTerminal(Terminal):
    """A terminal whose sentences name options."""

    def say(self, *sentences: str) -> None:
        """Print the sentences, with options in place of settings."""
        super().say(*map(as_options, sentences))


class Counted(Progress):
    """Counts training steps: none, if the resumed run was already finished."""

    steps = 0

    def step(self, *_: Any) -> None:
        """Count it."""
        self.steps += 1
