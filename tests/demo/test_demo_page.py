"""The demo's page in a real browser: no complaints, and every picture is there."""

import pytest
from browser import CHROMIUM, look
from matplotlib.figure import Figure

from care.report.page import Page, Picture, Section

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")


@pytest.fixture(scope="module")
def profile(tmp_path_factory):
    return tmp_path_factory.mktemp("chromium")


@pytest.fixture
def simple(tmp_path):
    """A page with one picture."""
    figure = Figure(figsize=(3, 2))
    figure.subplots().plot([0, 1], [0, 1])
    path = tmp_path / "page.html"
    path.write_text(Page("title", "lead", [Section("section", [Picture(figure, "a line")])]).html())
    return path


@pytest.mark.parametrize("width", [1100, 360], ids=["desktop", "phone"])
def test_the_page_shows_all_and_complains_about_nothing(shown, profile, width):
    seen = look(shown[0] / "report.html", profile, width)
    assert seen.errors == []
    assert seen.missing == []
    assert len(seen.pictures) == 8
    assert all(text for text, _ in seen.pictures)
    assert seen.too_wide == 0  # tables and figures that are wider can be moved sideways, the page cannot


def test_a_good_page_passes(simple, profile):
    seen = look(simple, profile)
    assert (seen.errors, seen.missing, len(seen.pictures)) == ([], [], 1)


def test_a_broken_picture_is_seen(simple, profile):
    text = simple.read_text()
    start = text.index("base64,") + len("base64,")
    simple.write_text(text[:start] + "AAAA" + text[text.index('"', start) :])
    assert look(simple, profile).missing == ["a line"]


@pytest.mark.parametrize(
    "bad",
    ["<script>undefined_function()</script>", '<img src="https://example.org/a.png">', '<img src="gone.png">'],
    ids=["script", "elsewhere", "file"],
)
def test_what_the_page_may_not_do_is_seen(simple, profile, bad):
    """A script is refused, and so is a picture that is not in the file: both are told on the console."""
    simple.write_text(simple.read_text().replace("</main>", f"{bad}</main>"))
    assert look(simple, profile).errors


def test_an_error_of_a_script_is_seen(simple, profile):
    """Where a page lets scripts run."""
    text = simple.read_text().replace("default-src 'none'", "default-src 'unsafe-inline'")
    simple.write_text(text.replace("</main>", "<script>undefined_function()</script></main>"))
    assert any("undefined_function is not defined" in error for error in look(simple, profile).errors)
