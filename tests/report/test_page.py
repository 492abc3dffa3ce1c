"""Pages are whole in one file, and show text as it is."""

import base64
import io
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from care.report.page import Page, Picture, Points, Row, Section, Table

EVIL = "<script>alert('x')</script> & \"quotes\" {{ 7 * 7 }}"


class Reader(HTMLParser):
    """What a browser would make of a page: its elements and their attributes, and its text."""

    def __init__(self, html):
        super().__init__()
        self.elements, self.text = [], ""
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.text += data

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


def line():
    figure = Figure(figsize=(4, 2))
    figure.subplots().plot([0, 1], [0, 1])
    return figure


def noise():
    figure = Figure(figsize=(4, 2))
    dots = np.random.default_rng(0).random((2, 3000))
    figure.subplots().scatter(*dots)
    return figure


def page(text="words", figure=None):
    parts = [
        text,
        Table([text, text], [[text, text]], text, {text: text}),
        Points([("✓", text)]),
        Picture(figure or line(), text, text),
    ]
    return Page(text, text, [Section(text, parts), Section("second", []), Section("third", [])], text)


def decoded(source):
    kind, _, data = source.removeprefix("data:image/").partition(";base64,")
    return kind, base64.b64decode(data)


def test_whatever_it_says_is_text():
    """All places that take a text were given a script: none becomes an element, and each is shown as it was given."""
    read = Reader(page(EVIL).html())
    assert not read.all("script")
    # Title twice, lead, section and its link, paragraph, 2 columns, 2 cells, caption, note and its name, point, caption
    # of the picture, footer.
    assert read.text.count(EVIL) == 16
    assert read.all("img")[0]["alt"] == EVIL


def test_an_option_stays_on_one_line_and_is_text_all_the_same():
    html = Page("with --keep hue", EVIL, [Section("", ["a--b, -- and --equivariant-weight <b>"])]).html()
    read = Reader(html)
    assert html.count('<span class="option">') == 2
    assert '<span class="option">--keep</span> hue' in html
    assert '<span class="option">--equivariant-weight</span> &lt;b&gt;' in html
    assert "a--b, -- and --equivariant-weight <b>" in read.text
    assert not read.all("b")


def test_pictures_of_a_row_are_shown_with_their_words():
    read = Reader(Page("t", "l", [Section("", [Row([Picture(line(), "left", EVIL), Picture(line(), EVIL)])])]).html())
    assert [image["alt"] for image in read.all("img")] == ["left", EVIL]
    assert {"class": "row"} in read.all("div")
    assert read.text.count(EVIL) == 1


def test_nothing_is_fetched_from_elsewhere():
    html = page().html()
    for _, attributes in Reader(html).elements:
        for name in ("src", "href", "srcset", "data", "action", "background"):
            assert attributes.get(name, "#").startswith(("#", "data:"))
    style = html.partition("<style>")[2].partition("</style>")[0]
    assert style
    assert not any(word in style for word in ("url(", "@import", "@font-face"))
    policy = [meta["content"] for meta in Reader(html).all("meta") if "http-equiv" in meta]
    assert policy == ["default-src 'none'; img-src data:; style-src 'unsafe-inline'"]


def test_links_lead_to_sections():
    read = Reader(page().html())
    targets = {attributes.get("id") for attributes in read.all("section")}
    assert {link["href"].removeprefix("#") for link in read.all("a")} == targets
    assert len(targets) == 3


def test_lines_are_drawn_as_svg():
    image = Reader(page().html()).all("img")[0]
    kind, data = decoded(image["src"])
    assert kind == "svg+xml"
    assert ElementTree.fromstring(data).tag == "{http://www.w3.org/2000/svg}svg"
    assert image["width"] == "384"  # 4 inches


def test_what_would_be_a_large_svg_is_a_png():
    kind, data = decoded(Reader(page(figure=noise()).html()).all("img")[0]["src"])
    assert kind == "png"
    with Image.open(io.BytesIO(data)) as image:
        assert image.size == (4 * 144, 2 * 144)


def test_the_same_values_make_the_same_bytes():
    assert page().html() == page().html()


def test_it_suits_phones_and_the_dark():
    html = page().html()
    viewport = [meta["content"] for meta in Reader(html).all("meta") if meta.get("name") == "viewport"]
    assert viewport == ["width=device-width, initial-scale=1"]
    assert "@media (prefers-color-scheme: dark)" in html


def test_rows_have_a_cell_per_column():
    with pytest.raises(ValueError, match="3 cells under 2 columns"):
        Table(["a", "b"], [["1", "2", "3"]])
