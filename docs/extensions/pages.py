"""Pages that are made anew for every build: those beside the README, the tables of `results/`, and every method."""

import re
from pathlib import Path
from typing import Any

from registered import methods_page
from sphinx.application import Sphinx
from tables import CLAIMS_HEADER, claims_marked, tables_page
from trade_off import trade_off, with_trade_off

from care.report.drawing import small_png

ROOT = Path(__file__).parents[2]
MADE = "project"  # the folder of docs/ that they are in, which is not kept
BESIDE_THE_README = {"RESULTS.md", "SECURITY.md", "CHANGELOG.md", "CONTRIBUTING.md"}
TRADE_OFF, DOTS_PER_INCH = "trade-off.png", 120
NUMBER, NO_BREAK = re.compile(r"[+−]?\d[\d.,]*( ± [\d.,]+)?( %|°)?(?=[ *])"), "\u00a0"
LINK = re.compile(r"(?<=\]\()(?!https?:|#)([^)#\s]+)")


def setup(app: Sphinx) -> dict[str, Any]:
    """Make the pages first, and turn links to the files into links to the pages."""
    app.connect("builder-inited", make_pages)
    app.connect("source-read", from_docs)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def make_pages(app: Sphinx) -> None:
    """Write the pages that changed."""
    pages = {page_of(name): from_root((ROOT / name).read_text()) for name in BESIDE_THE_README}
    marked = claims_marked(pages["results.md"])
    pages["results.md"] = with_trade_off(marked, CLAIMS_HEADER, TRADE_OFF, ROOT / "results")
    pages |= {"tables.md": tables_page(ROOT / "results"), "methods.md": methods_page()}
    folder = Path(app.srcdir, MADE)
    folder.mkdir(exist_ok=True)
    (folder / TRADE_OFF).write_bytes(small_png(trade_off(ROOT / "results"), DOTS_PER_INCH))
    for name, text in pages.items():
        page = folder / name
        if not page.exists() or page.read_text() != text:
            page.write_text(text)


def page_of(name: str) -> str:
    """The name of the page that a file beside the README becomes."""
    return name.lower()


def from_root(text: str) -> str:
    """A page beside the README, with its links as they are from the folder of made pages."""
    return LINK.sub(lambda match: _from_root(match[1]), text)


def _from_root(target: str) -> str:
    if target == "README.md":
        return "../index.md"
    if target in BESIDE_THE_README:
        return page_of(target)
    return f"../{target.removeprefix('docs/')}" if target.startswith("docs/") else f"../../{target}"


def from_docs(app: Sphinx, name: str, source: list[str]) -> None:
    """A page of docs/ or below, with links to files beside the README turned into links to their pages."""
    root = "../" * (name.count("/") + 1)
    source[0] = LINK.sub(lambda match: _from_docs(match[1], root), source[0])
    source[0] = "\n".join(unbroken(line) for line in source[0].split("\n"))


def unbroken(line: str) -> str:
    """A row of a table with its numbers on one line each: 84.4 ± 0.3 %."""
    return NUMBER.sub(lambda match: match[0].replace(" ", NO_BREAK), line) if line.startswith("|") else line


def _from_docs(target: str, root: str) -> str:
    name, docs = target.removeprefix(root), root.removeprefix("../")
    if target == f"{root}README.md":
        return f"{docs}index.md"
    return f"{docs}{MADE}/{page_of(name)}" if target.startswith(root) and name in BESIDE_THE_README else target
