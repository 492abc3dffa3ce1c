"""The site as it was built, page by page."""

from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

import pytest

HTML = Path(__file__).parents[2] / "docs" / "_build" / "html"
LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src"}
FETCHED = {"stylesheet", "icon", "preload", "modulepreload", "manifest"}  # of the kinds of <link>


@dataclass
class Page(HTMLParser):
    """What a page is called from outside (`anchors`), links to, and loads by itself."""

    path: Path
    anchors: set[str] = field(default_factory=set)
    links: set[str] = field(default_factory=set)
    loads: set[str] = field(default_factory=set)

    def __post_init__(self):
        super().__init__()
        self.feed(self.path.read_text())

    def handle_starttag(self, tag, attributes):
        given = {name: value or "" for name, value in attributes}
        self.anchors |= {given[name] for name in ("id", "name") if given.get(name)}
        if tag == "a" and "href" in given:
            self.links.add(given["href"])
        if tag in LOADED and LOADED[tag] in given:
            self.loads.add(given[LOADED[tag]])
        if tag == "link" and FETCHED & set(given.get("rel", "").split()):
            self.loads.add(given["href"])


@pytest.fixture(scope="session")
def html():
    if not (HTML / "index.html").exists():
        pytest.fail("there is no site: sphinx-build -W -b html docs docs/_build/html")
    return HTML


@pytest.fixture(scope="session")
def pages(html):
    return {path.relative_to(html).as_posix(): Page(path) for path in sorted(html.rglob("*.html"))}
