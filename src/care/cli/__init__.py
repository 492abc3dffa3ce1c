"""The command line. Each command has a file of its own; this one collects them."""

import re
import sys
import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import care
from care.cli.errors import MISTAKE, print_error, show_warning

INTERRUPTED = 130  # what typer makes of Ctrl-C

# Command → (module and attribute, line in `care --help`). Only the command that is called is imported: torch takes
# seconds to load, and help, errors and shell completion should not wait for it.
COMMANDS: dict[str, tuple[str, str]] = {
    "demo": (
        "demo.demo",
        "Train SimCLR with and without --keep hue on generated images, recolor some, and compare their neighbors.",
    ),
    "augment": ("augment.augment", "Draw augmentations and show pictures under each of them."),
    "train": (
        "train.train",
        "Pretrain an encoder and write a run folder: "
        "config.toml, log.jsonl, model.safetensors, checkpoints, curves.png.",
    ),
    "recipes": (
        "train.show_recipes",
        "List the recipes, most of them experiments of the paper: `care train --recipe NAME` runs one.",
    ),
    "evaluate": (
        "evaluate.evaluate",
        "Measure everything: linear classifiers, kNN, geometry by augmentation family, retrieval, decoding.",
    ),
    "measure": (
        "measure.measure",
        "Measure whether augmentations rotate a model's embeddings, change them otherwise, or leave them invariant.",
    ),
    "transfer": (
        "transfer.transfer",
        "Classify other data sets from frozen features: with all labels, with few of them, and in few-shot tasks.",
    ),
    "robustness": (
        "robustness.robustness",
        "Fit a classifier to clean images and test it on images with increasingly strong corruptions.",
    ),
    "compare": (
        "compare.compare",
        "Put evaluated runs side by side: one table, paired figures, and which differences are certain.",
    ),
    "steer": (
        "steer.steer",
        "Fit a rotation R(θ) of the embeddings as a function of the augmentation, and measure it on held-out images.",
    ),
    "retrieve": (
        "retrieve.retrieve",
        "Find the nearest neighbors of an augmented image without augmenting it: rotate f(q) by R(θ).",
    ),
    "explore": (
        "explore.explore",
        "Serve a local page: pick a picture, move sliders, and see the nearest neighbors of f(a(x)) change.",
    ),
    "reproduce": (
        "reproduce.reproduce",
        "Reproduce a figure or table of the paper: train, measure, and write the results beside the paper's numbers.",
    ),
    "export": (
        "export.export",
        "Export the backbone of a run for timm, Hugging Face, ONNX or TorchScript, and check that its features agree.",
    ),
    "bench": (
        "bench.bench",
        "Measure the speed of training, augmentation, loading, scaling, startup, and all methods, on random images.",
    ),
    "data": ("data.app", "Prepare data sets, list them, check them."),
}
# Commands by purpose, in the order of `care --help`.
PANELS: dict[str, tuple[str, ...]] = {
    "Start": ("demo", "data", "augment"),
    "Train": ("train", "recipes", "bench"),
    "Measure": ("evaluate", "measure", "transfer", "robustness", "compare"),
    "Use": ("steer", "retrieve", "explore", "export"),
    "Paper": ("reproduce",),
}
STYLE: dict[str, Any] = {"rich_markup_mode": "rich", "context_settings": {"help_option_names": ["-h", "--help"]}}


class Commands(TyperGroup):
    """A group whose commands are imported when they are called."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Import the command that is called."""
        if args and args[0] in COMMANDS:
            self.commands[args[0]] = load_command(args[0])
        return super().resolve_command(ctx, args)


def load_command(name: str) -> Any:
    """Import a command and wrap it for typer."""
    module, _, attribute = COMMANDS[name][0].partition(".")
    found: typer.Typer | Callable[..., Any] = getattr(import_module(f"care.cli.{module}"), attribute)
    if not isinstance(found, typer.Typer):
        alone = typer.Typer(add_completion=False, **STYLE)
        alone.command(name, cls=getattr(found, "command_class", None))(found)
        found = alone
    return _reflowed(typer.main.get_command(found))


def _reflowed(command: Any) -> Any:
    """Join the lines of the help, which typer would break as the source does; each example keeps its own line."""
    if command.help:
        command.help = re.sub(r"(?<!\n)\n(?!\n|\[bold\])", " ", command.help)
    for inner in getattr(command, "commands", {}).values():
        _reflowed(inner)
    return command


app = typer.Typer(name="care", cls=Commands, no_args_is_help=True, pretty_exceptions_enable=False, **STYLE)
for _panel, _names in PANELS.items():
    for _name in _names:
        app.command(_name, help=COMMANDS[_name][1], rich_help_panel=_panel)(lambda: None)


def _print_version(wanted: bool) -> bool:
    if wanted:
        typer.echo(f"care {care.__version__}")
        raise typer.Exit
    return wanted


@app.callback()
def care_command(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Contrastive learning in which an augmentation of the input rotates the embedding.

    Start with [bold]care demo[/bold]: it needs no data and no GPU.
    """


def _command(error: Exception) -> str:
    context = getattr(error, "ctx", None)
    return getattr(context, "command_path", None) or "care"


def main() -> None:
    """Run the command line. A misspelt option or a wrong value is printed in one line, with exit code 2."""
    warnings.showwarning = show_warning
    try:
        code = app(standalone_mode=False, prog_name="care")
    except Exception as error:
        # Click's usage errors have this method. Their class cannot be tested: typer may bundle its own copy of click.
        if not hasattr(error, "format_message"):
            raise
        if message := error.format_message():  # empty for a group without a command, which has printed its help
            print_error(f"{message.rstrip('.')}; see {_command(error)} --help")
        sys.exit(MISTAKE)
    if code == INTERRUPTED:
        print_error("stopped")
    sys.exit(code or 0)
