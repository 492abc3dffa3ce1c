"""Tables as plain text, for terminals and for `print`."""

import math
from collections.abc import Iterable, Sequence
from textwrap import fill

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

WIDE = 400  # columns: tables are not wrapped here
TERMINAL = 80  # columns of a terminal


def visible(text: str) -> str:
    """`text` without control characters, which a terminal would obey: they are escaped, as in \\x1b."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def text_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose first column is aligned left and all others right."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column, name in enumerate(header):
        table.add_column(Text(visible(name)), justify="left" if column == 0 else "right", no_wrap=True)
    for row in rows:
        table.add_row(*(Text(visible(cell)) for cell in row))
    console = Console(width=WIDE, color_system=None)
    with console.capture() as capture:
        console.print(table)
    return visible(title) + "\n" + "\n".join(line.rstrip() for line in capture.get().splitlines()).rstrip()


def paragraphs(sentences: Iterable[str]) -> str:
    """Each sentence from a new line on, wrapped to the width of a terminal."""
    return "\n".join(fill(sentence, TERMINAL, subsequent_indent="  ") for sentence in sentences)


def number(value: float, digits: int = 3) -> str:
    """`value` to so many digits, and with an exponent only if it is below 10⁻³ or at least 10⁵: 0.00394, 72.5, 1750."""
    if value == 0 or not math.isfinite(value):
        return f"{value:.0f}"
    exponent = math.floor(math.log10(abs(value)))
    return f"{value:.{max(0, digits - 1 - exponent)}f}" if -4 < exponent < 5 else f"{value:.{digits - 1}e}"


def duration(seconds: float) -> str:
    """1:02:03, or 2:03 where there are no hours."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
