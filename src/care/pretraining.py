"""`care.pretrain`: train an encoder on pictures in one call."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress as Bar
from rich.progress import TaskID

from care.data.user_splits import UserSplit, data_set_name, store_user_splits, user_splits
from care.models import Encoder
from care.objective.registry import NONE
from care.progress import ProgressCallback
from care.train import (
    Config,
    Run,
    Terminal,
    distributed,
    fitted_config,
    keep_settings,
    load,
    prepare,
    recommended_config,
    train,
)
from care.train.loggers import check_loggers, observers
from care.train.step_means import LOG_EVERY
from care.train.summary import summary_text

# Settings on which those of `keep` depend.
DECIDING = ("data", "method", "model", "init", "batch_size", "accumulate")


def pretrain(
    data: Any,
    *,
    out: str | Path,
    heldout: Any = None,
    pixels: int | None = None,
    workers: int = 0,
    keep: str | None = None,
    resume: bool = False,
    loggers: Sequence[str] = (),
    log_every: int = LOG_EVERY,
    quiet: bool = False,
    **settings: Any,
) -> Encoder:
    """Train an encoder on pictures, write the run folder `out`, and return the frozen encoder, as `care.load(out)`.

    `data` is a folder of pictures, the name of a data set or the path of a store, a tensor [n, 3, h, w] (uint8, or
    floating point in [0, 1]), `Samples`, a list, or any map-style `torch.utils.data.Dataset` of pictures, with or
    without labels. Pictures are read once, by `workers` processes, and written to a store in `out/data`: unchanged if
    all have the same size, otherwise, and from a folder, as squares of `pixels` (256, or less if they are smaller).
    `heldout` are pictures to measure on; without them a tenth of `data` is held out, from 20 to 1,000 pictures.
    `settings` are those of `care train`, by name: `model`, `method`, `equivariance`, `epochs`, `batch_size`, …
    `policy` may be an `ImagePolicy`. `keep`, as `--keep`, is what an equivariant part of the embedding keeps: "hue",
    "photometric", "crop", or several such as "hue,crop". `resume` continues the run in `out`, if there is one. A dozen
    lines of what was chosen, and the progress, are printed unless `quiet`.
    """
    run = Run(Path(out).absolute())
    started = (run.folder / "config.toml").exists()
    if started and not resume:
        raise ValueError(f"{out} already holds a run: choose another `out`, or continue it with resume=True")
    check_loggers(loggers)
    name = data_set_name(data)
    if name is not None and (heldout is not None or pixels is not None):
        raise ValueError(f"{data} has its own held-out pictures and its own size: leave out heldout and pixels")
    resumed = run if started else None
    where = name or str(run.folder / "data")
    if keep is not None:
        settings = with_kept(keep, settings, lambda asked: _config(resumed, where, asked))
    config = _config(resumed, where, settings)  # raises errors before pictures are read
    if name is None:
        splits = user_splits(data, heldout, pixels, workers)
        distributed.on_rank_0(distributed.start(config.device), _store, splits, Path(config.data), started, quiet)
    if resumed is None:
        config = fitted_config(config.data, **settings)
    job = prepare(config, run.folder, resume)
    if job.processes.is_rank_0 and not quiet:
        Terminal().lines(summary_text(job))
    train(job, observers(job, log_every, loggers, *([] if quiet else [Terminal()])))
    distributed.on_rank_0(job.processes, _draw, run)
    return load(run.folder)


def _config(resumed: Run | None, data: str, chosen: dict[str, Any]) -> Config:
    """The configuration of the resumed run, or a new one, with the chosen settings."""
    if resumed is not None:
        return resumed.config().replace(data=data, **chosen)
    return recommended_config(data, **chosen)


def with_kept(what: str, chosen: Mapping[str, Any], resolve: Callable[[dict[str, Any]], Config]) -> dict[str, Any]:
    """The `chosen` settings with those of `keep`; `resolve` gives the configuration without `keep`."""
    asked = {name: value for name, value in chosen.items() if name in DECIDING and value != NONE}
    return keep_settings(what, resolve(asked), chosen)


def _store(splits: dict[str, UserSplit], folder: Path, keep: bool, quiet: bool) -> None:
    terminal = Terminal()
    with _reading(terminal.console, quiet) as progress:
        store_user_splits(splits, folder, keep, (lambda _: None) if quiet else terminal.say, progress)


def _draw(run: Run) -> None:
    from care.report import curves_figure  # matplotlib takes a while to load: not before the first epoch
    from care.report.drawing import draw

    draw(curves_figure(run.log()), run.folder / "curves.png", "png")


@contextmanager
def _reading(console: Console, quiet: bool) -> Iterator[ProgressCallback]:
    """On a terminal, show a bar for each split while it is read."""
    tasks: dict[str, TaskID] = {}
    with Bar(console=console, transient=True, disable=quiet or not console.is_terminal) as bar:

        def progress(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = bar.add_task(stage, total=total)
            bar.update(tasks[stage], completed=done)

        yield progress
