"""`care demo`: see the paper's claim without data and without a GPU."""

import time
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from care import demo as show
from care.atomic_files import make_folder, write_atomically
from care.cli.ending import ending_in_one_line
from care.cli.mistakes import users_input
from care.cli.progress import progress_bars
from care.report import page


def demo(
    out: Annotated[
        Path,
        typer.Option(help="Where to write report.html and a run per encoder. An earlier demo there is replaced."),
    ] = Path("care-demo"),
    seed: Annotated[int, typer.Option(help="The same seed gives the same numbers on the same machine.")] = 0,
) -> None:
    """Train SimCLR and CARE on generated pictures and point clouds, and see what augmentations do to their embeddings.

    Takes a few minutes on two CPU cores. Nothing is downloaded. Prints one table and writes one page, report.html.
    """
    started = time.perf_counter()
    with users_input():
        make_folder(out)
    again = "`care demo` starts again from the beginning"
    with ending_in_one_line(again, "another --seed may do better"), progress_bars() as watch:
        found = show.demonstrate(out, seed, show.LESSONS, show.MEASURES, watch)
    report = out / "report.html"
    write_atomically(report, show.story(found, time.perf_counter() - started).html().encode())
    _print(Console(), show.table(found), [v for data in found for v in show.verdicts(data, found[data])])
    typer.echo(f"\n{report}: the same with pictures, and what each number means")


def _print(console: Console, table: page.Table, verdicts: list[show.Verdict]) -> None:
    drawn = Table(title=table.caption, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for i, column in enumerate(table.header):
        drawn.add_column(Text(column), justify="right" if i else "left")
    for row in table.rows:
        drawn.add_row(*map(Text, row))
    console.print(drawn)
    for column, sentence in table.notes.items():
        console.print(Text.assemble((column, "bold"), f"  {sentence}"))
    console.print()
    for verdict in verdicts:
        console.print(Text(f"{verdict.mark} {verdict.sentence}"))
