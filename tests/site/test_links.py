"""Every link and anchor of the built site leads somewhere, and no page needs another host."""

import ast
import json
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from care.objective.registry import REGISTERED

pytestmark = pytest.mark.site
ROOT = Path(__file__).parents[2]


def _broken(page, pages, html):
    for link in page.links | page.loads:
        parts = urlsplit(link)
        if parts.scheme or parts.netloc:
            continue
        target = page.path if not parts.path else (page.path.parent / unquote(parts.path)).resolve()
        anchor, name = unquote(parts.fragment), target.relative_to(html).as_posix()
        if not target.exists() or (anchor and name in pages and anchor not in pages[name].anchors):
            yield f"{page.path.relative_to(html)} → {link}"


def test_links_and_anchors_lead_somewhere(pages, html):
    assert [broken for page in pages.values() for broken in _broken(page, pages, html)] == []


def test_a_link_that_is_broken_is_found(pages, html, tmp_path):
    page = pages["index.html"]
    links, page.links = page.links, {"nowhere.html", "measures.html#no-such-anchor", "measures.html#displacement"}
    found = list(_broken(page, pages, html))
    page.links = links
    assert sorted(found) == ["index.html → measures.html#no-such-anchor", "index.html → nowhere.html"]


def test_no_page_loads_anything_from_another_host(pages, html):
    loads = {load for page in pages.values() for load in page.loads}
    styles = "".join(file.read_text() for file in html.rglob("*.css"))
    loads |= set(re.findall(r"url\(\s*[\"']?([^\"')]+)", styles)) | set(re.findall(r"@import\s+[\"']([^\"']+)", styles))
    assert len(loads) > 10
    assert {load for load in loads if re.match(r"(?!data:)\w+:|//", load)} == set()


def test_formulae_need_no_script(pages, html):
    assert (html / "catalogue.html").read_text().count("<math") >= 8
    assert not any(
        "mathjax" in load.lower() or "katex" in load.lower() for page in pages.values() for load in page.loads
    )


def test_every_registered_method_has_a_section(pages):
    anchors = pages["project/methods.html"].anchors
    assert {name.replace("_", "-") for names in REGISTERED.values() for name in names} <= anchors


def test_every_kept_table_is_there_with_commands_and_seeds(html):
    page = (html / "project" / "tables.html").read_text()
    kept = [path for path in (ROOT / "results").glob("*/*/*.json") if path.stem == path.parent.name]
    assert page.count('<div class="sortable">') == len(kept) > 10
    assert "care reproduce linear-probe --scale deep --part" in page
    assert "<td>0, 1, 2</td>" in page


def test_claims_of_the_paper_are_marked(html):
    page = (html / "project" / "results.html").read_text()
    assert all(f'<span class="{verdict}"><strong>' in page for verdict in ("yes", "no", "undecided"))


def test_the_trade_off_is_drawn_below_the_claims(html):
    page = (html / "project" / "results.html").read_text()
    picture = re.search(r'src="([^"]*trade-off[^"]*)"', page)
    assert picture
    assert (html / "project" / picture[1]).stat().st_size > 5_000
    assert page.index("the paper says of CARE") < picture.start() < page.index('id="how-to-read-these-numbers"')


def test_the_gallery_is_that_of_the_scripts(pages):
    scripts = {path.stem for path in (ROOT / "docs" / "gallery").glob("*.py")}
    assert len(scripts) >= 8
    assert {f"made_gallery/{script}.html" for script in scripts} <= set(pages)
    pictures = list((ROOT / "docs" / "made_gallery" / "images").rglob("*.png"))
    assert pictures
    assert max(path.stat().st_size for path in pictures) <= 100_000


def test_every_script_can_be_downloaded_as_a_notebook_of_the_same_code(pages):
    for script in (ROOT / "docs" / "gallery").glob("*.py"):
        page = pages[f"made_gallery/{script.stem}.html"]
        (link,) = [link for link in page.links if link.endswith(f"/{script.stem}.ipynb")]
        cells = json.loads((page.path.parent / link).read_text())["cells"]
        code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
        _, *written = ast.parse(script.read_text()).body  # without its docstring, which is the first cell
        assert ast.dump(ast.Module(written, [])) == ast.dump(ast.Module(ast.parse(code).body, []))


@pytest.mark.parametrize("name", ["project/results", "results/peers"])
def test_numbers_of_tables_are_not_broken_over_lines(html, name):
    page = (html / f"{name}.html").read_text()
    cells = re.findall(r"<td>(.*?)</td>", page, re.S)
    assert any(re.search(r"\d\u00a0±\u00a0\d", cell) for cell in cells)
    assert not any(re.search(r"\d ± \d", cell) for cell in cells)


@pytest.mark.parametrize("name", ["care.losses.info_nce", "care.geometry.heldout_ratio", "care.measure"])
def test_names_in_the_text_link_to_the_reference(pages, name):
    assert any(
        link.endswith(f"#{name}") for page in pages.values() if page.path.parent.name == "html" for link in page.links
    )
