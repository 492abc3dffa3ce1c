"""Docstrings as they are written, plain text with `code`, in the language that autodoc reads."""

import re
from typing import Any

from sphinx.application import Sphinx

SPECIAL = re.compile(r"([\\*|_])")
TERM = re.compile(r"(`[^`]+`|\"[^\"]+\":|[\w_]+)( +)(\S.*)")


def setup(app: Sphinx) -> dict[str, Any]:
    """Translate every docstring before it is read."""
    app.connect("autodoc-process-docstring", translate)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def translate(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Replace the lines by their reStructuredText."""
    lines[:] = as_rst("\n".join(lines)).split("\n")


def as_rst(text: str) -> str:
    """Paragraphs, lists, indented blocks of code or formulae, and lists of names with what they are."""
    return "\n\n".join(_paragraph(paragraph) for paragraph in re.split(r"\n\s*\n", text.strip("\n")))


def _paragraph(text: str) -> str:
    lines = text.split("\n")
    if all(line.startswith("    ") for line in lines):
        return "::\n\n" + text
    return _listed(lines) if _is_listed(lines) else escaped(text)


def _is_listed(lines: list[str]) -> bool:
    """Whether terms are on the left and what they mean in a column on the right."""
    terms = [TERM.match(line) for line in lines if not line.startswith("    ")]
    return lines[0] == lines[0].lstrip() and all(terms) and any(len(term[2]) > 1 for term in terms if term)


def _listed(lines: list[str]) -> str:
    """A list of the terms; a line that begins in the right column goes on with the one before."""
    found = []
    for line in lines:
        term = TERM.match(line)
        found.append(f"- {escaped(term[1])} {escaped(term[3])}" if term else f"  {escaped(line.strip())}")
    return "\n".join(found)


def escaped(text: str) -> str:
    """`code` as a literal, everything else as it stands."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return SPECIAL.sub(r"\\\1", text.replace("`", r"\`"))
    marked = [f"``{part}``\\ " if i % 2 else SPECIAL.sub(r"\\\1", part) for i, part in enumerate(parts)]
    return "".join(marked)
