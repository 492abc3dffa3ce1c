"""The results of `care demo` on a terminal."""

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from care.demo import Verdict
from care.report import page


def print_results(table: page.Table, verdicts: list[Verdict]) -> None:
    """Print the table, what its columns mean, and what follows from them."""
    console = Console()
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
