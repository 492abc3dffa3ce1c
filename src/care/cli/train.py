"""`care train`, `care recipes`: pretrain an encoder."""

import dataclasses
import inspect
import types
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import typer
from rich.console import Console

from care.cli.ending import ending_in_one_line
from care.cli.mistakes import users_input
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
from care.train.config import known_names
from care.train.loop import SAVE_MINUTES
from care.train.recipes import KEPT, TURNED

HELP = {
    "data": "Data set: shapes, chains, cifar10, … (`care data list`), or the folder of a store.",
    "split": "The split to train on.",
    "method": "What to train with; `equivariance` adds CARE to any of them.",
    "temperature": "τ of InfoNCE.",
    "equivariance": "λ, the weight of the equivariance loss (a mean over pairs). 0 leaves it out.",
    "turned": "How many coordinates augmentations may turn, unseen by the Siamese loss. 0: all are seen by both.",
    "orbit": "With --turned: how strongly views of one image are kept apart in those. 0: they may be one point.",
    "turning": "With --turned: the weight of all that is asked of those, beside the Siamese loss of the others.",
    "steering": "μ, the weight of the steering loss: an augmentation's parameters say how it turns. 0 leaves it out.",
    "steering_rank": "How many coordinates of the embedding the steering loss turns.",
    "chunks": "In how many chunks a batch falls; each chunk shares an augmentation.",
    "form": "The bilinear form that augmentations should preserve.",
    "views": "4: views of their own for the equivariance loss (the paper). 2: both losses share two views.",
    "chunked_views": "With 2 views: how many of them are drawn per chunk.",
    "shared_by": "Who shares an augmentation: a chunk (the paper), or the batch (the authors' program).",
    "policy": "Augmentations of the Siamese loss.",
    "chunk_policy": "Augmentations of the equivariance loss.",
    "size": "Side of the views in pixels, if not the policy's own.",
    "identity": "Probability that an augmentation of a chunk changes nothing, for each of a and a' by itself.",
    "model": "Any timm model, small_resnet for small pictures, or deepset for point clouds.",
    "embedding": "Dimension of the embedding; 2 is the circle.",
    "head_width": "Width of the projection head.",
    "head_depth": "Layers of the projection head.",
    "head_batchnorm": "BatchNorm between the layers of the projection head.",
    "batchnorm": "Statistics of each view for itself (the authors' program), or of all views together.",
    "queue": "MoCo's queue.",
    "momentum": "Momentum of the momentum encoder.",
    "limit": "Train on the first N samples only.",
    "validation": "Cut this many samples per class from train (of all where there are no classes) and watch those "
    "instead of the test split.",
    "accumulate": "Micro-batches per step.",
    "batch_size": "Samples per step, over all processes.",
    "sgd_momentum": "Momentum of sgd and lars.",
    "schedule": "The learning rate over training; cooldown is constant and falls to 0 over the last quarter.",
    "warmup_epochs": "Epochs in which the learning rate grows.",
    "ema": "Keep a moving average of the encoder with this momentum, and save that. 0: no.",
    "seed": "The same seed gives the same run on a CPU.",
    "device": "auto, cpu, cuda.",
    "precision": "auto is bf16 on a GPU and fp32 on a CPU.",
    "compile": "Compile the network with torch.compile: a minute at the first start, then faster.",
    "graph": "On one GPU, replay the whole step as a CUDA graph.",
    "deterministic": "On a GPU, too, the same seed gives the same bits; slower.",
    "evaluate_every": "Measure after every so many epochs.",
}


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
            help=f"Keep what the contrast forgets, {' or '.join(KEPT)}, in {TURNED} more coordinates of the embedding: "
            "sets --turned, --equivariance, --turning and --chunk-policy."
        ),
    ] = None,
    tensorboard: Annotated[bool, typer.Option(help="Also write the log for TensorBoard, to OUT/tensorboard.")] = False,
    **chosen: Any,
) -> None:
    """Pretrain an encoder and leave a run folder: config.toml, log.jsonl, model.safetensors, checkpoints, curves.png.

    Every setting has the paper's value for the data set. What is given here goes before --recipe and --config.

    Examples: [bold]care train --data shapes --equivariance 3[/bold],
    [bold]care train --data shapes --keep hue[/bold], or
    [bold]care train --recipe cifar10-care-simclr --model resnet18 --epochs 100[/bold]
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
        folder = out or Path("runs") / (recipe_name or f"{Path(settings.data).name}-{settings.method}")
        plan = prepare(settings, folder, resume, save_minutes)
        counted = Counted()
        watchers: list[Progress] = [Terminal(console), counted] if plan.processes.is_rank_0 else []
        if tensorboard and plan.processes.is_rank_0:
            watchers.append(TensorBoard(folder / "tensorboard"))
    if plan.processes.is_rank_0:
        console.print(settings.to_toml(), highlight=False, markup=False)
    with ending_in_one_line(
        f"`care train --resume --out {folder}` goes on", f"the last checkpoint in {folder} is from before"
    ):
        run_training(plan, Several(*watchers))
        if plan.processes.is_rank_0:
            from care.report import curves_figure  # matplotlib takes a while to load: not before the first epoch

            curves_figure(plan.run.log()).savefig(folder / "curves.png", dpi=120)
    if plan.processes.is_rank_0:
        if counted.steps == 0:
            console.print(f"already finished: {settings.epochs} epoch{'s' * (settings.epochs > 1)}", highlight=False)
        typer.echo(str(folder))


def _keeping(
    what: str, chosen: dict[str, Any], config: Path | None, recipe_name: str | None, resumed: Path | None
) -> dict[str, Any]:
    """What `--keep` sets beside what was chosen. An embedding is that of the contrast: the coordinates are added to it,
    and not once more where a run that has them is resumed."""
    chosen = dict(chosen)
    embedding = chosen.pop("embedding", None)
    if embedding is None:
        there = resolve({name: chosen[name] for name in {"data"} & set(chosen)}, config, recipe_name, resumed)
        embedding = there.embedding - there.turned
    return {**keeping(what, embedding), **chosen}


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
        return dataclasses.replace(Config.read(config), **chosen)
    if recipe_name is not None:
        return dataclasses.replace(recipe(recipe_name), **chosen)
    if resumed is not None and (resumed / "config.toml").exists():
        return dataclasses.replace(Config.read(resumed / "config.toml"), **chosen)
    if resumed is not None and "data" not in chosen:
        raise ValueError(f"there is no run to resume in {resumed}: say what to train on there, such as --data shapes")
    if "data" not in chosen:
        raise ValueError("say what to train on: --data shapes, or another of `care data list`")
    return default_config(**known_names(chosen, "the command line"))


def show_recipes() -> None:
    """List the paper's experiments by name: `care train --recipe NAME` runs one."""
    rows = []
    for name, config in recipes().items():
        weight = f"{config.equivariance:.3g}" if config.equivariance else "–"
        chunks = str(config.chunks) if config.equivariance else "–"
        rows.append((name, config.method, weight, chunks, config.model, str(config.epochs), str(config.batch_size)))
    header = ("name", "method", "λ", "chunks", "model", "epochs", "batch")
    typer.echo(text_table("the paper's experiments: care train --recipe NAME", header, rows))


def _plain(kind: Any) -> Any:
    """The type of an option: text for a choice of words, the number for a choice of numbers."""
    if get_origin(kind) is Literal:
        return type(get_args(kind)[0])
    if get_origin(kind) in (Union, types.UnionType):
        return next(option for option in get_args(kind) if option is not type(None))
    return kind


def _help(field: dataclasses.Field[Any]) -> str:
    choices = f" One of {', '.join(map(str, get_args(field.type)))}." if get_origin(field.type) is Literal else ""
    return HELP.get(field.name, field.name.replace("_", " ").capitalize() + ".") + choices


def _with_all_settings(command: Any) -> Any:
    """The command with an option for every field of the configuration, named as the field is."""
    fixed = [p for p in inspect.signature(command).parameters.values() if p.kind != inspect.Parameter.VAR_KEYWORD]
    settings = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[_plain(field.type) | None, typer.Option(help=_help(field))],
        )
        for field in sorted(dataclasses.fields(Config), key=lambda field: field.name != "data")
    ]
    command.__signature__ = inspect.Signature([*fixed, *settings])
    command.__annotations__ = {p.name: p.annotation for p in (*fixed, *settings)} | {"return": None}
    return command


train = _with_all_settings(train)
