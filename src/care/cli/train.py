"""`care train`, `care recipes`: pretrain an encoder."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from care.cli.ending import ending_in_one_line
from care.cli.mistakes import users_input
from care.cli.train_options import with_all_settings
from care.tables import text_table
from care.train import (
    Config,
    Progress,
    Several,
    TensorBoard,
    Terminal,
    default_config,
    keeping,
    prepare,
    recipe,
    recipes,
)
from care.train import train as run_training
from care.train.loop import SAVE_MINUTES
from care.train.recipes import EQUIVARIANT_DIM, KEPT
from care.train.state import stem_sentence


@with_all_settings
def train(
    out: Annotated[Path | None, typer.Option(help="The run folder. Default: runs/NAME.")] = None,
    resume: Annotated[bool, typer.Option(help="Go on with the run in --out, or begin it.")] = False,
    save_minutes: Annotated[
        float, typer.Option(min=0, help="Save within an epoch too, so many minutes after the last time.")
    ] = SAVE_MINUTES,
    config: Annotated[Path | None, typer.Option(help="A config.toml, such as that of another run.")] = None,
    recipe_name: Annotated[str | None, typer.Option("--recipe", help="An experiment of the paper.")] = None,
    keep: Annotated[
        str | None,
        typer.Option(
            help=f"Keep what the method's loss discards, {' or '.join(KEPT)}, in an equivariant part of "
            f"{EQUIVARIANT_DIM} more coordinates: --equivariance split with the --equivariance-policy for it."
        ),
    ] = None,
    tensorboard: Annotated[bool, typer.Option(help="Also write the log for TensorBoard, to OUT/tensorboard.")] = False,
    **chosen: Any,
) -> None:
    """Pretrain an encoder and leave a run folder: config.toml, log.jsonl, model.safetensors, checkpoints, curves.png.

    Every setting has the paper's value for the data set. What is given here goes before --recipe and --config.

    Examples: [bold]care train --data shapes --equivariance care[/bold],
    [bold]care train --data shapes --keep hue[/bold], or
    [bold]care train --recipe cifar10-care-simclr --model resnet18 --epochs 100[/bold]

    A method of your own: [bold]care train --data shapes --method mine.py:Mine[/bold]
    """
    chosen = {name: value for name, value in chosen.items() if value is not None}
    console = Console()
    with users_input():
        if resume and out is None:
            raise ValueError("say which run to go on with: --resume --out FOLDER")
        resumed = out if resume else None
        if keep is not None:
            chosen = _keeping(keep, chosen, config, recipe_name, resumed)
        settings = resolve(chosen, config, recipe_name, resumed)
        folder = out or Path("runs") / (recipe_name or _name(settings))
        job = prepare(settings, folder, resume, save_minutes)
        counted = Counted()
        watchers: list[Progress] = [Terminal(console), counted] if job.processes.is_rank_0 else []
        if tensorboard and job.processes.is_rank_0:
            watchers.append(TensorBoard(folder / "tensorboard"))
    if job.processes.is_rank_0:
        console.print(settings.to_toml(), highlight=False, markup=False)
        if sentence := stem_sentence(settings, job.samples.source):
            console.print(sentence, highlight=False, soft_wrap=True)
    with ending_in_one_line(
        f"`care train --resume --out {folder}` goes on", f"the last checkpoint in {folder} is from before"
    ):
        run_training(job, Several(*watchers))
        if job.processes.is_rank_0:
            from care.report import curves_figure  # matplotlib takes a while to load: not before the first epoch

            curves_figure(job.run.log()).savefig(folder / "curves.png", dpi=120)
    if job.processes.is_rank_0:
        if counted.steps == 0:
            console.print(f"already finished: {settings.epochs} epoch{'s' * (settings.epochs > 1)}", highlight=False)
        typer.echo(str(folder))


def _name(settings: Config) -> str:
    """A folder for a run: the data set, and what it is trained with."""
    choices = (choice.name for choice in (settings.equivariance, settings.method) if choice.name != "none")
    words = (Path(settings.data).name, *(name.rpartition(":")[2] for name in choices))
    return "-".join(words)


def _keeping(
    what: str, chosen: dict[str, Any], config: Path | None, recipe_name: str | None, resumed: Path | None
) -> dict[str, Any]:
    """What `--keep` sets beside what was chosen. An embedding is the method's: the equivariant part is added to it, and
    not once more where a run that has one is resumed."""
    chosen = dict(chosen)
    embedding_dim = chosen.pop("embedding_dim", None)
    if embedding_dim is None:
        there = resolve({name: chosen[name] for name in {"data"} & set(chosen)}, config, recipe_name, resumed)
        embedding_dim = there.embedding_dim - there.equivariant_dim
    return {**keeping(what, embedding_dim), **chosen}


class Counted(Progress):
    """Counts the steps that are made: none, if the run that is resumed was at its end."""

    steps = 0

    def step(self, *_: Any) -> None:
        """Count it."""
        self.steps += 1


def resolve(chosen: dict[str, Any], config: Path | None, recipe_name: str | None, resumed: Path | None) -> Config:
    """The configuration that the options amount to."""
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
    if "data" not in chosen:
        raise ValueError("say what to train on: --data shapes, or another of `care data list`")
    return default_config(**chosen)


def show_recipes() -> None:
    """List the paper's experiments by name: `care train --recipe NAME` runs one."""
    rows = []
    for name, config in recipes().items():
        values = config.flat()
        weight = f"{values['care_weight']:.3g}" if "care_weight" in values else "–"
        chunks = str(values.get("chunks", "–"))
        ours = (config.method.name, config.equivariance.name, weight, chunks)
        rows.append((name, *ours, config.model, str(config.epochs), str(config.batch_size)))
    header = ("name", "method", "equivariance", "λ", "chunks", "model", "epochs", "batch")
    typer.echo(text_table("the paper's experiments: care train --recipe NAME", header, rows))
