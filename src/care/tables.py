"""Tables and sentences as plain text, no wider than the terminal, or than 80 columns without one."""

import math
import shutil
from collections.abc import Iterable, Iterator, Sequence
from textwrap import fill

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

Rows = Sequence[Sequence[str]]

WIDE = 400  # columns for output that must not be wrapped
TERMINAL = 80  # default columns of a terminal, and of a pipe
GAP = 3  # characters between the columns of a table


def visible(text: str) -> str:
    """`text` with control characters, which a terminal would obey, escaped as in \\x1b."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def columns() -> int:
    """The width of the terminal; 80 without one."""
    return shutil.get_terminal_size((TERMINAL, 24)).columns


def text_table(title: str, header: Sequence[str], rows: Rows, width: int | None = None) -> str:
    """A table with the first column aligned left and all others right, at most `width` wide, by default the terminal.

    A wider table is split into parts below each other, each of which begins with the first column. If not even one
    column fits beside the first, or there is only one row, every row becomes a block of lines `name: value`.
    """
    width = width or columns()
    header, rows = [visible(name) for name in header], [[visible(cell) for cell in row] for row in rows]
    parts = list(_parts(_widths(header, rows), width))
    title = wrapped(visible(title), width)
    if len(parts) > 1 and (len(rows) == 1 or not all(fits for _, fits in parts)):
        return "\n\n".join([title, *(_block(header, row, width) for row in rows)])
    cut = ([0, *chosen] for chosen, _ in parts)
    return "\n".join([title, *(_drawn([[row[i] for i in chosen] for row in (header, *rows)]) for chosen in cut)])


def _widths(header: Sequence[str], rows: Rows) -> list[int]:
    return [max(map(cell_len, column)) for column in zip(header, *rows, strict=True)]


def _parts(widths: Sequence[int], width: int) -> Iterator[tuple[list[int], bool]]:
    """The columns beside the first one in each part, and whether they fit."""
    chosen: list[int] = []
    for i in range(1, len(widths)):
        if chosen and _total(widths, [*chosen, i]) > width:
            yield chosen, _total(widths, chosen) <= width
            chosen = []
        chosen.append(i)
    yield chosen, _total(widths, chosen) <= width


def _total(widths: Sequence[int], chosen: Sequence[int]) -> int:
    return 1 + widths[0] + sum(GAP + widths[i] for i in chosen)


def _drawn(lines: Rows) -> str:
    """Draw a table; the first line is the header."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column, name in enumerate(lines[0]):
        table.add_column(Text(name), justify="left" if column == 0 else "right", no_wrap=True)
    for row in lines[1:]:
        table.add_row(*map(Text, row))
    console = Console(width=WIDE, color_system=None)
    with console.capture() as capture:
        console.print(table)
    return "\n".join(line.rstrip() for line in capture.get().splitlines()).rstrip()


def _block(header: Sequence[str], row: Sequence[str], width: int) -> str:
    """A row as a block: its name, and a line for every other cell that is not empty."""
    name = f"{header[0]}: {row[0]}" if header[0] else row[0]
    longest = max(map(cell_len, header[1:]))
    others = ((title + ":", cell) for title, cell in zip(header[1:], row[1:], strict=True) if cell)
    lines = [f"  {title}{' ' * (longest + 1 - cell_len(title))} {cell}" for title, cell in others]
    return "\n".join([wrapped(name, width), *(wrapped(line, width, "    ") for line in lines)])


def wrapped(line: str, width: int | None = None, indent: str = "  ") -> str:
    """Wrap a line between words; words stay whole, so that paths can be copied."""
    return fill(
        line, width or columns(), subsequent_indent=indent, break_long_words=False, break_on_hyphens=False,
        replace_whitespace=False, drop_whitespace=True,
    )  # fmt: skip


def paragraphs(sentences: Iterable[str]) -> str:
    """Each sentence on a new line, wrapped to 80 columns, or to a narrower terminal."""
    return "\n".join(wrapped(sentence, min(columns(), TERMINAL)) for sentence in sentences)


def number(value: float, digits: int = 3) -> str:
    """`value` to `digits` digits, with an exponent only below 10⁻³ or from 10⁵ on: 0.00394, 72.5, 1750."""
    if value == 0 or not math.isfinite(value):
        return f"{value:.0f}"
    exponent = math.floor(math.log10(abs(value)))
    return f"{value:.{max(0, digits - 1 - exponent)}f}" if -4 < exponent < 5 else f"{value:.{digits - 1}e}"


def duration(seconds: float) -> str:
    """1:02:03, or 2:03 where there are no hours."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
