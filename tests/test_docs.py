"""What the README and the docs say is run, found and looked up."""

import importlib
import re
import tomllib
from functools import reduce
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
EXAMPLES = [
    pytest.param(code, id=f"{page.name}-{i}")
    for page in PAGES
    for i, code in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL))
]


@pytest.mark.parametrize("code", EXAMPLES)
def test_examples_run(code):
    exec(compile(code, "example", "exec"), {})


def test_the_readme_example_has_ten_lines():
    lines = [line for line in EXAMPLES[0].values[0].splitlines() if line and not line.startswith("import")]
    assert len(lines) <= 10


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_names_and_links_exist(page):
    text = page.read_text()
    for name in re.findall(r"`(care(?:\.\w+)+)`", text):
        module = importlib.import_module("care")
        reduce(getattr, name.split(".")[1:], module)
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", text):
        assert (page.parent / target).exists(), f"{page.name} points to {target}"
    for path in re.findall(r"`((?:tests|docs|src)/[\w/.]+)`", text):
        assert (ROOT / path).exists(), f"{page.name} names {path}"


def test_every_equation_is_in_the_map():
    text = (ROOT / "README.md").read_text()
    for symbol in ("L_InfoNCE", "L_equi", "L_inv", "L_unif", "L_CARE", "W_f", "γ_f", "Prop. 1", "Cor. 1", "B(x, x')"):
        assert symbol in text


def test_the_test_command_is_the_one_ci_runs():
    assert "uv run pytest" in (ROOT / "README.md").read_text()
    assert "uv run pytest" in (ROOT / ".ci" / "run").read_text()


def test_version_is_the_same_everywhere():
    version = importlib.import_module("care").__version__
    assert f"version: {version}" in (ROOT / "CITATION.cff").read_text()
    assert f"## {version}" in (ROOT / "CHANGELOG.md").read_text()
    assert "version" in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dynamic"]
