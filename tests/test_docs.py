"""What the README and the docs say is run, found and looked up."""

import importlib
import pkgutil
import re
import shlex
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from care.cli import COMMANDS, app, load_command
from care.objective.registry import REGISTERED
from care.train import recommended_config

ROOT = Path(__file__).parent.parent
RESULTS = [ROOT / "RESULTS.md", *sorted((ROOT / "docs" / "results").glob("*.md"))]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")), *RESULTS]
PYTHON = re.compile(r"```python\n(.*?)```", flags=re.DOTALL)
EXAMPLES = [
    pytest.param(code, id=f"{page.name}-{i}")
    for page in PAGES
    for i, code in enumerate(PYTHON.findall(page.read_text()))
]


WHOLE = re.compile(r"(?:^|uv run |torchrun .*-m )care (.+)")


def _calls(page: Path) -> list[str]:
    """Every call of `care` in a block of shell commands."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    lines = "\n".join(block for language, block in blocks if not language).replace("\\\n", " ").splitlines()
    return [call[1] for call in map(WHOLE.search, lines) if call is not None]


def _mentions(page: Path) -> list[str]:
    """Every command that is named in running text, with the options it is named with."""
    return re.findall(r"`care ([a-z][^`]*)`", " ".join(page.read_text().split()))


def _of_pages(find):
    return [pytest.param(call, id=f"{page.name}: {call}") for page in PAGES for call in sorted({*find(page)})]


@pytest.mark.parametrize("call", _of_pages(_calls))
def test_calls_are_understood(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("photos").mkdir()
    Path("mine.py").write_text(PYTHON.search((ROOT / "docs" / "methods.md").read_text())[1])
    name, *words = shlex.split(call, comments=True)
    assert name in COMMANDS
    command = load_command(name)
    if name == "data":
        name, command, words = command.resolve_command(command.make_context(name, words), words)
    command.make_context(name, words)  # parses, and runs nothing


@pytest.mark.parametrize("call", [call for call in _of_pages(_calls) if call.values[0].startswith("reproduce ")])
def test_studies_and_their_parts_exist(call):
    words = [word for word in shlex.split(call, comments=True) if word != "--done"]
    assert CliRunner().invoke(app, [*words, "--trials"]).exit_code == 0


@pytest.mark.parametrize("mention", _of_pages(_mentions))
def test_commands_and_options_exist(mention):
    name, *words = mention.split()
    assert name in COMMANDS
    command = load_command(name)
    if name == "data" and words:
        command = command.commands[words[0]]
    options = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    assert {word for word in words if word.startswith("--")} <= options | {"--help"}


@pytest.mark.usefixtures("coarse_pictures")
@pytest.mark.parametrize("code", EXAMPLES)
def test_examples_run(code):
    exec(compile(code, "example", "exec"), {})


def test_the_quickstart_says_what_is_trained_where_nothing_is_named():
    """For pictures of one's own."""
    default, named = recommended_config("pets"), recommended_config("pets", method="simclr")
    assert [(c.method.settings.views, c.optimizer) for c in (default, named)] == [(4, "muon"), (2, "adam")]
    page = (ROOT / "docs" / "quickstart.md").read_text()
    assert "| nothing, and leave out `--keep hue`: SimCLR with four views and Muon |" in page


def test_the_readme_is_read_in_two_minutes():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 100


def test_the_results_are_read_in_two_minutes():
    """A page that links to every page of its details, each of them of a readable length."""
    page, *details = RESULTS
    assert len(page.read_text().splitlines()) <= 150
    assert len(details) >= 10
    assert [one.name for one in details if f"](docs/results/{one.name})" not in page.read_text()] == []
    assert [one.name for one in details if len(one.read_text().splitlines()) > 200] == []


def test_the_readme_example_has_ten_lines():
    lines = [line for line in EXAMPLES[0].values[0].splitlines() if line and not line.startswith("import")]
    assert len(lines) <= 10


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_names_and_links_exist(page):
    text = page.read_text()
    for name in re.findall(r"`(care(?:\.\w+)+)`", text):
        assert pkgutil.resolve_name(name) is not None
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", text):
        assert (page.parent / target).exists(), f"{page.name} points to {target}"
    for path in re.findall(r"`((?:tests|docs|src)/[\w/.]+)`", text):
        assert (ROOT / path).exists(), f"{page.name} names {path}"


def test_every_registered_method_is_described():
    pages = "".join((ROOT / "docs" / page).read_text() for page in ("catalogue.md", "peers.md")).lower()
    commands = {f"--{kind} {name}" for kind, names in REGISTERED.items() for name in names}
    recipes = {"--method simclr", "--method mocov2", "--equivariance care", "--equivariance split"}  # given by a recipe
    ablations = {"--method invariance", "--method uniformity"}
    assert {command for command in commands if command not in pages} <= recipes | ablations


def test_every_equation_is_in_the_map():
    text = (ROOT / "docs" / "equations.md").read_text()
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
