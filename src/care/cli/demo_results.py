"""The results of `care demo` on a terminal, in at most 80 columns."""

from collections.abc import Iterable, Sequence
from textwrap import fill

from rich.console import Console
from rich.text import Text

from care.demo import Verdict
from care.report import page
from care.tables import text_table

WIDTH = 80


def print_story(headline: str, sentences: Iterable[str], shortened: str) -> None:
    """Print the headline, the findings as bullet points, and what was shortened."""
    console = _console()
    console.print(Text(fill(headline, WIDTH), style="bold"), end="\n\n")
    for sentence in sentences:
        console.print(_point("•", sentence))
    if shortened:
        console.print(Text("\n" + fill(shortened, WIDTH)))


def print_claims(tables: Sequence[page.Table], verdicts: Iterable[Verdict]) -> None:
    """Print a table per data set, and which claims the tables show."""
    console = _console()
    for table in tables:
        console.print(Text(text_table("", table.header, table.rows, WIDTH)))
    console.print()
    for verdict in verdicts:
        console.print(_point(verdict.mark, verdict.claim.words))
    console.print(Text("✓ seen, ✗ not seen, ? not significant; one seed, intervals over samples"))


def _console() -> Console:
    return Console(width=WIDTH)  # narrower terminals wrap by themselves


def _point(mark: str, words: str) -> Text:
    return Text(fill(words, WIDTH, initial_indent=f"{mark} ", subsequent_indent="  "))
