"""Tables as plain text, for terminals and for `print`."""

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

WIDE = 400  # a table is as wide as it needs to be; whoever prints it may wrap it


def text_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose first column is to the left and all others to the right."""
    table = Table(title=Text(title), box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False)
    for column, name in enumerate(header):
        table.add_column(Text(name), justify="left" if column == 0 else "right", no_wrap=True)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console = Console(width=WIDE, color_system=None)
    with console.capture() as capture:
        console.print(table)
    return "\n".join(line.rstrip() for line in capture.get().splitlines()).rstrip()
