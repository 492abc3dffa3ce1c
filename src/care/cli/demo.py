"""`care demo`: see the paper's claim without data and without a GPU."""

import time
from pathlib import Path
from typing import Annotated

import typer

from care.atomic_files import make_folder, write_atomically
from care.cli.ending import ending_in_one_line
from care.cli.mistakes import users_input
from care.cli.progress import progress_bars


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
    from care import demo as show
    from care.cli.demo_results import print_results

    again = "`care demo` starts again from the beginning"
    with ending_in_one_line(again, "another --seed may do better"), progress_bars() as watch:
        found = show.demonstrate(out, seed, show.LESSONS, show.MEASURES, watch)
    report = out / "report.html"
    write_atomically(report, show.story(found, time.perf_counter() - started).html().encode())
    print_results(show.table(found), [v for data in found for v in show.verdicts(data, found[data])])
    typer.echo(f"\n{report}: the same with pictures, and what each number means")
