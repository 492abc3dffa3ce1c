"""A self-contained HTML page of sections with text, tables and pictures: it loads nothing from elsewhere."""

import base64
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import ClassVar, Literal

import matplotlib
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup, escape
from matplotlib.figure import Figure

from care.report.drawing import draw

TEMPLATE = "page.html.jinja"

OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
DOTS_PER_INCH = 144
LARGEST_SVG = 200_000  # bytes; figures with images or thousands of dots are smaller and faster as PNG


@dataclass(frozen=True)
class Picture:
    """A figure with its alternative text `alt`, and a `caption` below it."""

    kind: ClassVar[str] = "picture"
    figure: Figure
    alt: str
    caption: str = ""

    @property
    def source(self) -> str:
        """The figure as a `data:` address: an SVG, or a PNG if the SVG would be large."""
        svg = _drawn(self.figure, "svg")
        kind, data = ("svg+xml", svg) if len(svg) <= LARGEST_SVG else ("png", _drawn(self.figure, "png"))
        return f"data:image/{kind};base64,{base64.b64encode(data).decode()}"

    @property
    def width(self) -> int:
        """The width, if there is room for it, in CSS pixels, 96 per inch."""
        return round(96 * self.figure.get_figwidth())


@dataclass(frozen=True)
class Table:
    """Cells as text, a row's name first; `notes` explain columns, a sentence each."""

    kind: ClassVar[str] = "table"
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    notes: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.header):
                raise ValueError(f"a row has {len(row)} cells under {len(self.header)} columns: {list(row)}")


@dataclass(frozen=True)
class Points:
    """Sentences one below the other, each after a mark such as ✓: (mark, sentence)."""

    kind: ClassVar[str] = "points"
    sentences: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Row:
    """Pictures beside each other, or below each other if there is no room."""

    kind: ClassVar[str] = "row"
    pictures: Sequence[Picture]


Part = str | Table | Picture | Points | Row  # a text is a paragraph


@dataclass(frozen=True)
class Section:
    """A title and the parts below it; a `folded` section shows only its title until it is opened."""

    title: str
    parts: Sequence[Part]
    folded: bool = False


@dataclass(frozen=True)
class Page:
    """A page with a title, a lead, sections, and a last line that says where it came from."""

    title: str
    lead: str
    sections: Sequence[Section]
    footer: str = ""

    @property
    def open_sections(self) -> list[tuple[int, Section]]:
        """The sections that are not folded, each with its number."""
        return [(i, section) for i, section in enumerate(self.sections, start=1) if not section.folded]

    def html(self) -> str:
        """The page as HTML. All texts are escaped: none becomes markup."""
        environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
        environment.filters["unbroken"] = unbroken
        template = files("care.report").joinpath(TEMPLATE).read_text(encoding="utf-8")
        return environment.from_string(template).render(page=self)


def unbroken(text: str) -> Markup:
    """The text, escaped, in which an option such as --keep stays on one line."""
    return Markup(OPTION.sub(r'<span class="option">\g<0></span>', str(escape(text))))


def _drawn(figure: Figure, kind: Literal["png", "svg"]) -> bytes:
    """The figure in a format, the same bytes every time."""
    file = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "care"}):
        draw(figure, file, kind, DOTS_PER_INCH, {"Date": None} if kind == "svg" else None)
    return file.getvalue()
