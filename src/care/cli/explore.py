"""`care explore`: a page on which a picture is augmented by hand, with its nearest neighbors by every model."""

import signal
import tempfile
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from care.cli.errors import users_input
from care.cli.options import Device


def explore(
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            help="Run folders, or any models that [bold]care measure[/bold] takes, on one data set; or a folder of "
            "runs, to choose from on the page. Default: the folder runs.",
            show_default=False,
        ),
    ] = None,
    data: Annotated[
        str | None, typer.Option("--data", help="A data set. Default: what the runs were trained on.")
    ] = None,
    split: Annotated[str | None, typer.Option(help="Default: the runs' validation samples, else test or val.")] = None,
    images: Annotated[int, typer.Option(min=20, help="Use only the first N images of the split.")] = 10_000,
    k: Annotated[int, typer.Option("--k", min=1, max=100, help="How many neighbors to show.")] = 8,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="0 picks a free one.")] = 0,
    device: Device = "auto",
    open_page: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in a browser.")] = False,
) -> None:
    """Serve a local page: pick a picture, move sliders, and see the nearest neighbors of f(a(x)) change.

    A photo of your own can be dropped into the page. Runs that [bold]care steer[/bold] was run on also show the
    neighbors of the prediction R(θ) f(x). The address contains a token: nobody can open the page without it. Ctrl-C
    ends it.

    Examples:
    [bold]care explore[/bold]
    [bold]care explore runs/simclr runs/mine[/bold]
    """
    from care.cli.explore_setup import explored_gallery
    from care.explore import ExploreServer

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)  # even if the shell made us ignore them
    try:
        with users_input():
            server = ExploreServer(port)
        with server:
            with users_input():
                gallery = explored_gallery(runs or ["runs"], data, split, images, k, device)
            typer.echo(f"{server.address}   (Ctrl-C ends it)")
            with leading_to(server.address) as page:
                if open_page:
                    webbrowser.open(page)
                server.serve(gallery)
    except KeyboardInterrupt:
        typer.echo("", err=True)  # the terminal has written ^C


@contextmanager
def leading_to(address: str) -> Iterator[str]:
    """The address of a file that redirects to `address` and that no other user can read.

    Other users must not learn the token, and all of them can see the arguments that a browser was started with.
    """
    with tempfile.TemporaryDirectory(prefix="care-explore-") as folder:
        page = Path(folder) / "explore.html"
        page.write_text(f'<!doctype html><meta http-equiv="refresh" content="0; url={address}">\n')
        yield page.as_uri()
