"""What the docs say was measured is what `results/` holds: tables cell by cell, intervals one by one."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
RESULTS = [ROOT / "RESULTS.md", *sorted((ROOT / "docs" / "results").glob("*.md"))]
PAGES = [ROOT / "README.md", *RESULTS, ROOT / "docs" / "catalogue.md"]
NUMBER = r"[-+−]?\d+(?:\.\d+)?(?:e-?\d+)?"
STATED = re.compile(rf"(?:interval |difference |\()({NUMBER}) to ({NUMBER})(?=[,;:.)] ?|\s)")
FOUND = re.compile(rf"95 %: ({NUMBER}) to ({NUMBER}),")
Cell = tuple[str, str, str]
COMMAND = re.compile(r"care reproduce ([a-z0-9\- ]+?) --(.*)")


def plain(cell: str) -> str:
    """Without emphasis, links, the name of the data set, per cent and what is in brackets after a number."""
    cell = re.sub(r"\[(.*?)\]\(.*?\)", r"\1", cell.replace("**", "")).strip().removeprefix("cifar10: ")
    return re.sub(r"(?<=\d)( %)? \(.*\)$", "", cell).removesuffix(" %")


def cells(text: str) -> list[Cell]:
    """Of the tables of a Markdown text: the label of the row, the title of the column, and the content."""
    found = []
    for block in re.findall(r"(?:^\|.*\n)+", text, flags=re.MULTILINE):
        header, _, *rows = [[plain(cell) for cell in line.strip()[1:-1].split("|")] for line in block.splitlines()]
        found += [
            (row[0].removeprefix("CARE, "), *pair) for row in rows for pair in zip(header[1:], row[1:], strict=True)
        ]
    return found


def same(stated: str, measured: str) -> bool:
    """Whether numbers are the measured ones, rounded to the digits that are stated."""
    ours, theirs = (re.findall(NUMBER, cell.replace("−", "-")) for cell in (stated, measured))
    return 0 < len(ours) <= len(theirs) and all(map(rounds_to, ours, theirs))


def rounds_to(stated: str, measured: str) -> bool:
    """Whether a number may be the rounded other: half a unit of its last digit, and of the other's."""
    digits = [len(one.partition("e")[0].partition(".")[2]) + exponent(one) for one in (stated, measured)]
    return abs(float(stated) - float(measured)) <= sum(0.5 * 10**-d for d in digits) * (1 + 1e-9)


def exponent(number: str) -> int:
    return -int(number.partition("e")[2] or 0)


def sections(page: Path) -> list[tuple[str, list[Cell], list[Cell]]]:
    """Of each part of a page: title, the cells of its tables, and those of the tables that its commands write."""
    found = []
    for part in parts(page.read_text()):
        written = [
            ROOT / "results" / scale / name / "table.md"
            for names, rest in COMMAND.findall(part)
            for name in names.split()
            for scale in re.findall(r"scale (\w+)", rest)
        ]
        measured = [cell for path in written if path.exists() for cell in cells(path.read_text())]
        found.append((f"{page.stem}: {part.splitlines()[0].strip('# ')}", cells(part + "\n"), measured))
    return found


def parts(text: str) -> list[str]:
    """The sections of a page, each with those after it that have no commands of their own."""
    found: list[str] = []
    for section in text.split("\n## "):
        if found and "```" not in section:
            found[-1] += "\n" + section
        else:
            found.append(section)
    return found


@pytest.mark.parametrize(
    ("stated", "measured"),
    [pytest.param(*cells, id=title) for page in RESULTS for title, *cells in sections(page) if all(cells)],
)
def test_tables_are_those_of_the_results(stated, measured):
    found = [(place, cell, known) for *place, cell in stated if (known := [c for *p, c in measured if p == place])]
    for place, cell, known in found:
        assert not re.search(r"\d", cell) or any(same(cell, one) for one in known), f"{place}: {cell} is {known}"
    assert len(found) > 0.7 * len(stated)  # the others are of no column there


def intervals(page: Path) -> list[tuple[str, str]]:
    return STATED.findall(" ".join(page.read_text().split()))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_intervals_are_those_of_the_results(page):
    measured = [pair for path in (ROOT / "results").rglob("table.md") for pair in FOUND.findall(path.read_text())]
    either_way = [*measured, *((negative(high), negative(low)) for low, high in measured)]
    for stated in intervals(page):
        low, high = (one.replace("−", "-") for one in stated)
        assert any(rounds_to(low, a) and rounds_to(high, b) for a, b in either_way), f"{page.name}: {stated}"


def negative(number: str) -> str:
    return number.replace("+", "~").replace("-", "+", 1).replace("~", "-")
