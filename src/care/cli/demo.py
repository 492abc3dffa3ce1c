"""`care demo`: see what equivariance is good for, without data and without a GPU."""

import time
from pathlib import Path
from typing import Annotated

import typer

from care.atomic_files import make_folder, write_atomically
from care.cli.errors import users_input
from care.cli.interrupts import ending_in_one_line
from care.cli.progress import progress_bars


def demo(
    out: Annotated[
        Path,
        typer.Option(help="Where to write report.html and a run per encoder. An earlier demo there is replaced."),
    ] = Path("care-demo"),
    seed: Annotated[
        int, typer.Option(help="The same seed gives the same numbers on the same machine, if training is as long.")
    ] = 0,
    full: Annotated[
        bool,
        typer.Option(
            "--full",
            help="Train six encoders, also on point clouds, and check the paper's claims about CARE. Takes minutes.",
        ),
    ] = False,
) -> None:
    """Train SimCLR with and without --keep hue on generated images, recolor some, and compare their neighbors.

    Takes a minute and a half on two CPU cores. If they are busy it may train on fewer pictures, and then says so.

    Nothing is downloaded. Prints three numbers and writes one page with the pictures, report.html.
    """
    started = time.perf_counter()
    with users_input():
        make_folder(out)
    from care import demo as show
    from care.cli.demo_results import print_claims, print_story

    again = "`care demo` starts again from the beginning"
    with ending_in_one_line(again, "another --seed may do better"), progress_bars() as progress:
        if full:
            found = show.demonstrate(out, seed, show.LESSONS, show.MEASURES, progress)
        else:
            hue = show.demonstrate_hue(out, seed, show.HUE, progress)
    seconds = time.perf_counter() - started
    page = show.story(found, seconds) if full else show.hue_page(hue, seconds)
    report = out / "report.html"
    write_atomically(report, page.html().encode())
    if full:
        print_claims(show.tall_tables(found), [v for data in found for v in show.verdicts(data, found[data])])
        typer.echo(f"\nThe same with pictures, and what each number means:\n{report}")
    else:
        print_story(show.headline(hue), show.sentences(hue), show.shortened(hue))
        typer.echo(f"\nThe pictures, and how sure this is:\n{report}")
