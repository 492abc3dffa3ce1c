"""`care data`: convert data sets to image stores, list them, check them."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from care.cli.declared import keys
from care.cli.mistakes import users_input
from care.tables import visible

if TYPE_CHECKING:
    from care.data.store import Header

LINE_EVERY = 10_000  # pictures between two lines where there is no terminal to draw a bar on

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Prepare data sets, list them, check them.")

Root = Annotated[Path | None, typer.Option(help="Folder of all stores; $CARE_DATA or ~/.cache/care by default.")]
Name = Annotated[
    str, typer.Argument(help=f"{', '.join(keys('care.data.registry', 'DATA_SETS'))}, or a name of your own.")
]


@app.command("list")
def list_data(root: Root = None) -> None:
    """List the data sets that care can read or generate, and those that you prepared."""
    from care.data import registry

    console = Console()
    table = Table(title=Text(visible(f"Stores are in {registry.data_root(root)}")))
    for column in ("name", "what it is", "splits", "prepared"):
        table.add_column(column, overflow="fold")
    with users_input():
        for name in dict.fromkeys((*registry.DATA_SETS, *registry.prepared_names(root))):
            table.add_row(*(Text(visible(cell)) for cell in _row(name, root)))
    console.print(table)


@app.command()
def prepare(
    name: Name,
    files: Annotated[Path | None, typer.Option("--from", help="The folder or archive that you downloaded.")] = None,
    size: Annotated[int | None, typer.Option(min=1, help="Side of the pictures, where it can be chosen.")] = None,
    skip: Annotated[int, typer.Option(min=0, help="Leave out up to so many unreadable files per split.")] = 0,
    split: Annotated[list[str] | None, typer.Option(help="Only this split; can be given several times.")] = None,
    root: Root = None,
    download: Annotated[bool, typer.Option("--download", help="Get the files from their authors' page.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace stores that are there.")] = False,
) -> None:
    """Convert a data set to a store per split.

    Any name that is not in the list stands for a folder of pictures: FOLDER/train/CLASS/… and FOLDER/val/CLASS/…, or
    FOLDER/CLASS/…. Pictures directly in FOLDER/train/ or FOLDER, without folders of classes, have no class.

    Example: [bold]care data prepare cifar10 --from downloads/[/bold]
    """
    from care.data import registry
    from care.data.store_writer import write_store

    console = Console()
    with users_input(), _files(name, files, download, root, console) as path:
        splits = tuple(split or registry.splits_of(name, path))
        folders = {part: registry.store_folder(name, part, root) for part in splits}
        if not overwrite and (there := [str(folder) for folder in folders.values() if folder.exists()]):
            raise ValueError(f"{there[0]} exists: --overwrite replaces it, --split prepares other splits alone")
        for part, folder in folders.items():
            source = registry.read(name, path, part, size)
            with _ticking(console, f"{name} {part}", source.expected) as tick:
                header = write_store(folder, name, part, source, skip, overwrite, tick)
            _report(console, folder, header)


@app.command()
def check(name: Name, root: Root = None) -> None:
    """Read every byte of all stores of a data set and compare checksums."""
    from care.data import registry
    from care.data.store import open_store

    console = Console()
    with users_input():
        registry.published(name)
        splits = registry.prepared_splits(name, root)
        if not splits:
            raise ValueError(f"{name} is not prepared in {registry.data_root(root)}: care data list shows what is")
        for split in splits:
            folder = registry.store_folder(name, split, root)
            samples = open_store(folder, verify=True)
            _say(console, f"{folder}: {len(samples):,} images, all bytes as they were written")


def _row(name: str, root: Path | None) -> tuple[str, str, str, str]:
    from care.data import registry

    known = registry.DATA_SETS.get(name, registry.ANY_FOLDER)
    if isinstance(known, registry.Generated):
        return name, known.summary, ", ".join(known.splits), "generated when used"
    prepared = registry.prepared_splits(name, root)
    where = f"{', '.join(prepared)} in {registry.data_root(root) / name}" if prepared else "no"
    return name, known.summary, ", ".join(known.splits) or "as in the folder", where


@contextmanager
def _files(name: str, files: Path | None, download: bool, root: Path | None, console: Console) -> Iterator[Path]:
    """The path of the data set's files while they are needed: `--from`, or a download, which is deleted afterwards."""
    from care.data import registry
    from care.data.readers.download import fetch

    known = registry.published(name)
    if name not in registry.DATA_SETS:
        _say(console, f"{name} is none of {', '.join(registry.DATA_SETS)}: read as a folder of pictures")
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
            with _ticking(console, f"{known.download.url}, bytes", None) as tick:
                archive = fetch(known.download, Path(folder), tick)
            yield archive


@contextmanager
def _ticking(console: Console, what: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """A progress bar on a terminal; elsewhere a line every 10,000 pictures."""
    if console.is_terminal:
        with Progress(console=console) as progress:
            task = progress.add_task(what, total=total)
            yield lambda step: progress.advance(task, step)
        return
    done = 0
    _say(console, f"{what}: reading")

    def tick(step: int) -> None:
        nonlocal done
        done += step
        if total is not None and done % LINE_EVERY == 0:
            _say(console, f"{what}: {done:,} of {total:,}")

    yield tick


def _report(console: Console, folder: Path, header: "Header") -> None:
    size, classes = f"{header.height} × {header.width}", f"{len(header.classes) or 'no'} classes"
    _say(console, f"{folder}: {header.count:,} images of {size} pixels, {classes}")
    for file in header.skipped:
        _say(console, f"skipped {file}")


def _say(console: Console, line: str) -> None:
    """Print a line without markup or wrapping: file names may hold brackets, and paths can be copied."""
    console.print(Text(visible(line)), soft_wrap=True)
