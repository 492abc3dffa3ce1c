"""`care data`: convert data sets to image stores, list them, check them."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from care.cli.errors import users_input
from care.cli.rate import say, showing_rate
from care.cli.static_settings import keys
from care.tables import visible

STOPPED = 75  # by Ctrl-C; what was done so far is kept
MEGABYTE = 1_000_000

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Prepare data sets, list them, check them.")

Root = Annotated[Path | None, typer.Option(help="Folder of all stores; $CARE_DATA or ~/.cache/care by default.")]
Name = Annotated[
    str, typer.Argument(help=f"{', '.join(keys('care.data.catalogue', 'DATA_SETS'))}, or a name of your own.")
]


@app.command("list")
def list_data(root: Root = None) -> None:
    """List the data sets that care can read or generate, and those that you prepared."""
    from care.data import registry
    from care.data.catalogue import DATA_SETS

    console = Console()
    table = Table(title=Text(visible(f"Stores are in {registry.data_root(root)}")))
    for column in ("name", "what it is", "splits", "prepared"):
        table.add_column(column, overflow="fold")
    with users_input():
        for name in dict.fromkeys((*DATA_SETS, *registry.prepared_names(root))):
            table.add_row(*(Text(visible(cell)) for cell in _row(name, root)))
    console.print(table)


@app.command()
def prepare(
    name: Name,
    files: Annotated[Path | None, typer.Option("--from", help="The folder or archive that you downloaded.")] = None,
    pixels: Annotated[int | None, typer.Option(min=1, help="Side of the stored pictures, if it can be chosen.")] = None,
    skip: Annotated[
        str | None,
        typer.Option(help="Unreadable files to tolerate per split, as 20 or 5%. Default: 1%, but at least 10."),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes that read picture files. Default: all cores.")
    ] = None,
    shard_size: Annotated[int, typer.Option(min=1, help="MiB per shard, a file of the store.")] = 1024,
    split: Annotated[list[str] | None, typer.Option(help="Only this split; can be given several times.")] = None,
    root: Root = None,
    download: Annotated[bool, typer.Option("--download", help="Download the files from their authors' page.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace existing stores.")] = False,
) -> None:
    """Convert a data set to a store per split.

    Any name that is not in the list stands for a folder of pictures: FOLDER/train/CLASS/… and FOLDER/val/CLASS/…, or
    FOLDER/CLASS/…. Pictures directly in FOLDER/train/ or FOLDER, without folders of classes, have no class.

    If it is stopped, run the same command again: it goes on where it was.

    Example: [bold]care data prepare cifar10 --from downloads/[/bold]
    """
    from care.cli.prepare_data import allowed, list_skipped, prepare_split, prepared
    from care.data import registry
    from care.data.store import SKIPPED

    console = Console()
    with users_input(), _stopping(), _files(name, files, download, root, console) as path:
        allowed(skip, 0)
        splits = tuple(split or registry.splits_of(name, path))
        folders = {part: registry.store_folder(name, part, root) for part in splits}
        sources = {part: registry.read(name, path, part, pixels) for part in splits}
        done = prepared(console, folders, sources, overwrite)
        how, written = {"overwrite": overwrite, "workers": workers, "shard_bytes": shard_size << 20}, {}
        for part in (part for part in splits if part not in done):
            written[folders[part]] = prepare_split(console, name, part, folders[part], sources[part], skip, **how)
        for folder, header in written.items():
            list_skipped(console, header.skipped, folder / SKIPPED)


@app.command()
def check(name: Name, root: Root = None) -> None:
    """Read every byte of all stores of a data set and compare checksums."""
    from care.data import registry
    from care.data.store import open_store, read_header

    console = Console()
    with users_input():
        registry.published(name)
        splits = registry.prepared_splits(name, root)
        if not splits:
            raise ValueError(f"{name} is not prepared in {registry.data_root(root)}: see care data list")
        for split in splits:
            folder = registry.store_folder(name, split, root)
            with showing_rate(console, f"{name} {split}", "images", read_header(folder).count) as tick:
                samples = open_store(folder, verify=True, tick=tick)
            say(console, f"{folder}: {len(samples):,} images, all checksums match")


@contextmanager
def _stopping() -> Iterator[None]:
    """End Ctrl-C in one line."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo("stopped; the same command goes on where it was", err=True)
        raise typer.Exit(STOPPED) from None


def _row(name: str, root: Path | None) -> tuple[str, str, str, str]:
    from care.data import registry
    from care.data.catalogue import ANY_FOLDER, DATA_SETS, Generated

    known = DATA_SETS.get(name, ANY_FOLDER)
    if isinstance(known, Generated):
        return name, known.summary, ", ".join(known.splits), "generated when used"
    prepared = registry.prepared_splits(name, root)
    where = f"{', '.join(prepared)} in {registry.data_root(root) / name}" if prepared else "no"
    return name, known.summary, ", ".join(known.splits) or "as in the folder", where


@contextmanager
def _files(name: str, files: Path | None, download: bool, root: Path | None, console: Console) -> Iterator[Path]:
    """The path of the data set's files while they are needed: `--from`, or a download, which is deleted afterwards."""
    from care.data import registry
    from care.data.catalogue import DATA_SETS
    from care.data.readers.download import fetch

    known = registry.published(name)
    if name not in DATA_SETS:
        say(console, f"no data set is called {name} ({', '.join(DATA_SETS)}): reading it as a folder of pictures")
    if download == (files is not None):
        page = f"; the files are at {known.page}" if known.page else ""
        raise ValueError(f"give either --from FOLDER or --download{page}")
    if files is not None:
        yield files
    elif known.download is None:
        raise ValueError(
            f"{name} cannot be downloaded by care; give --from FOLDER"
            + (f", the files are at {known.page}" if known.page else "")
        )
    else:
        parent = registry.data_root(root)
        parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".download-", dir=parent) as folder:
            with showing_rate(console, known.download.url, "MB", None) as tick:
                archive = fetch(known.download, Path(folder), lambda done: tick(done // MEGABYTE))
            yield archive
