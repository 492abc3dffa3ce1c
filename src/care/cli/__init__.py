"""The command line. Commands live in a file each; this one puts them together."""

import sys
from typing import Annotated

import typer

import care
from care.cli.augment import augment
from care.cli.bench import bench
from care.cli.compare import compare
from care.cli.data import app as data
from care.cli.demo import demo
from care.cli.evaluate import evaluate
from care.cli.explore import explore
from care.cli.export import export
from care.cli.measure import measure
from care.cli.mistakes import MISTAKE, tell
from care.cli.reproduce import reproduce
from care.cli.retrieve import retrieve
from care.cli.steer import steer
from care.cli.train import show_recipes, train

app = typer.Typer(
    name="care",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(demo)
app.command()(augment)
app.command()(train)
app.command("recipes")(show_recipes)
app.command()(evaluate)
app.command()(measure)
app.command()(compare)
app.command()(steer)
app.command()(retrieve)
app.command()(explore)
app.command()(reproduce)
app.command()(export)
app.command()(bench)
app.add_typer(data, name="data")


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
    """Run the command line. A misspelt option or a wrong value is told in one line, with exit code 2."""
    try:
        code = app(standalone_mode=False, prog_name="care")
    except Exception as error:
        # The errors of click, which typer may bring along under another name, know how to put themselves.
        if not hasattr(error, "format_message"):
            raise
        if message := error.format_message():  # a command group alone has printed its help instead
            tell(f"{message.rstrip('.')}; {_command(error)} --help lists what there is")
        sys.exit(MISTAKE)
    sys.exit(code or 0)
