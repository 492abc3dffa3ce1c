"""`care train`, `care recipes`: pretrain an encoder."""

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from care.cli.errors import as_options, users_input
from care.cli.interrupts import ending_in_one_line
from care.cli.static_settings import constant, keys
from care.cli.train_options import with_all_settings

KEPT = ", ".join(keys("care.train.recipes", "KEPT"))
EQUIVARIANT_DIM = constant("care.train.recipes", "EQUIVARIANT_DIM")
SAVE_MINUTES, SAVE_EVERY = (constant("care.train.job", f"Saving.{name}") for name in ("minutes", "every"))
LOGGERS, LOG_EVERY = ", ".join(keys("care.train.loggers", "LOGGERS")), constant("care.train.step_means", "LOG_EVERY")


@with_all_settings
def train(
    out: Annotated[Path | None, typer.Option(help="The run folder. Default: runs/NAME.")] = None,
    resume: Annotated[bool, typer.Option(help="Resume the run in --out, or start it if there is none.")] = False,
    save_minutes: Annotated[
        float, typer.Option(min=0, help="Also save within an epoch, this many minutes after the last checkpoint.")
    ] = SAVE_MINUTES,
    save_every: Annotated[int, typer.Option(min=1, help="Epochs between checkpoints.")] = SAVE_EVERY,
    keep_every: Annotated[
        int | None,
        typer.Option(min=1, help="Keep every Nth epoch's checkpoint, each a usable model. Default: only the last."),
    ] = None,
    config: Annotated[Path | None, typer.Option(help="A config.toml to start from, such as another run's.")] = None,
    recipe_name: Annotated[str | None, typer.Option("--recipe", help="A recipe of `care recipes`.")] = None,
    keep: Annotated[
        str | None,
        typer.Option(
            help=f"Keep what the method's loss discards: {KEPT}, or several, as hue,crop. The features keep it because "
            f"it is predicted from them (--augself-weight); {EQUIVARIANT_DIM} more coordinates of the embedding, its "
            "equivariant part, rotate with it (--equivariance split with a matching --equivariance-policy)."
        ),
    ] = None,
    logger: Annotated[
        list[str] | None,
        typer.Option(help=f"Also log to one of {LOGGERS}; can be given several times."),
    ] = None,
    log_every: Annotated[
        int, typer.Option(min=0, help="Log means over this many steps to OUT/steps.jsonl and the loggers. 0: never.")
    ] = LOG_EVERY,
    **chosen: Any,
) -> None:
    """Pretrain an encoder and write a run folder: config.toml, log.jsonl, model.safetensors, checkpoints, curves.png.

    With --data alone, it uses the settings that classified best: SimCLR with four views and Muon. --keep adds losses
    that keep the hue, colors or the crop. With --method or --equivariance, it uses the paper's values for the data set
    instead. Options given here override --recipe and --config.

    Examples:
    [bold]care train --data shapes --keep hue[/bold]
    [bold]care train --data shapes --equivariance care[/bold]
    [bold]care train --recipe cifar10-care-simclr --model resnet18 --epochs 100[/bold]
    [bold]care train --data shapes --method mine.py:Mine[/bold] (a method of your own)
    """
    chosen = {name: value for name, value in chosen.items() if value is not None}
    with users_input():
        if resume and out is None:
            raise ValueError("say which run to go on with: --resume --out FOLDER")
        if not (resume or config or recipe_name or "data" in chosen):
            raise ValueError("say what to train on: --data shapes, or another of `care data list`")
        from care.cli.train_setup import CommandTerminal, Counted, configuration, patience, run_folder
        from care.data.streamed.opening import opened_once
        from care.train import Saving, prepare
        from care.train import train as run_training
        from care.train.loggers import check_loggers, observers
        from care.train.summary import summary_text

        with opened_once(patience(partial(typer.echo, err=True))):
            settings = configuration(chosen, keep, config, recipe_name, out if resume else None)
            check_loggers(logger or ())
            folder = out or run_folder(settings, recipe_name)
            job = prepare(settings, folder, resume, Saving(save_minutes, save_every, keep_every))
        counted = Counted()
        progress = observers(job, log_every, logger or (), CommandTerminal(), counted)
    if job.processes.is_rank_0:
        typer.echo(as_options(summary_text(job)))
    with ending_in_one_line(
        f"`care train --resume --out {folder}` goes on", f"the last checkpoint in {folder} is from before"
    ):
        run_training(job, progress)
        if job.processes.is_rank_0:
            from care.report import curves_figure  # matplotlib takes a while to load: not before the first epoch
            from care.report.drawing import draw

            draw(curves_figure(job.run.log()), folder / "curves.png", "png")
    if job.processes.is_rank_0:
        if counted.steps == 0:
            typer.echo(f"already finished: {settings.epochs} epoch{'s' * (settings.epochs > 1)}")
        typer.echo(str(folder))


def show_recipes() -> None:
    """List the recipes, most of them experiments of the paper: `care train --recipe NAME` runs one."""
    from care.tables import text_table
    from care.train import recipes

    rows = []
    for name, config in recipes().items():
        values = config.flat()
        weight = f"{values['care_weight']:.3g}" if "care_weight" in values else "–"
        chunks = str(values.get("chunks", "–"))
        ours = (config.method.name, config.equivariance.name, weight, chunks)
        rows.append((name, *ours, config.model, str(config.epochs), str(config.batch_size)))
    header = ("name", "method", "equivariance", "λ", "chunks", "model", "epochs", "batch")
    typer.echo(text_table("experiments of the paper, except those named sgd: care train --recipe NAME", header, rows))
