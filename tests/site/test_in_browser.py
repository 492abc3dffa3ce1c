"""The built site in a real browser: light and dark, wide and narrow."""

import pytest

from browser import CHROMIUM, look

pytestmark = [pytest.mark.browser, pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")]
PAGES = [
    "index",
    "catalogue",
    "measures",
    "steering",
    "project/results",
    "results/peers",
    "project/tables",
    "api/losses",
    "made_gallery/keep_hue",
]
SORT = """const head = page.querySelectorAll(".sortable th")[{column}], body = head.closest("table").tBodies[0];
  const cells = () => [...body.rows].map(row => parseFloat(row.cells[{column}].textContent));
  head.click(); const up = cells(); head.click(); return [up, cells()];"""

BROKEN = """return [...page.querySelectorAll("article code .pre")]
  .filter(word => word.getClientRects().length > 1).map(word => word.textContent);"""


@pytest.fixture(scope="module")
def profile(tmp_path_factory):
    return tmp_path_factory.mktemp("chromium")


@pytest.mark.parametrize("width", [1000, 390], ids=["desk", "phone"])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_whole(html, profile, name, width):
    seen = look(html / f"{name}.html", profile, width)
    assert seen.errors == []
    assert seen.missing == []
    assert seen.too_wide <= 0


@pytest.mark.parametrize("name", ["catalogue", "losses"])
def test_names_and_options_are_on_one_line_each(html, profile, name):
    assert look(html / f"{name}.html", profile, 390, act=BROKEN).answer == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_light_and_dark(html, profile, dark):
    background = look(html / "index.html", profile, dark=dark).background
    assert (sum(map(int, background[4:-1].split(",")[:3])) < 3 * 64) == dark


def test_tables_are_sorted_by_a_click(html, profile):
    """Dashes, of what was not measured, come last both times."""
    up, down = look(html / "project/tables.html", profile, act=SORT.format(column=1)).answer
    numbers, dashes = sorted(x for x in up if x is not None), [None] * up.count(None)
    assert len(numbers) > 1
    assert dashes
    assert up == numbers + dashes
    assert down == numbers[::-1] + dashes
