"""The command line, as a user runs it."""

import itertools
import re
import shutil
import subprocess
import sys

import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

import care
from care.cli import COMMANDS, app, load_command, main
from care.objective import policy_for
from care.train import fitted_config, recipes
from care.train.fitted import fitted_policy


def run(*args, code=0, width=200):
    result = CliRunner().invoke(app, [str(arg) for arg in args], env={"NO_COLOR": "1", "COLUMNS": str(width)})
    assert result.exit_code == code, result.output
    return result.output


def size_of(path):
    with Image.open(path) as image:
        return image.size


@pytest.fixture
def picture(tmp_path, generator, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Image.fromarray(torch.randint(256, (40, 60, 3), dtype=torch.uint8, generator=generator).numpy()).save("picture.png")
    return "picture.png"


def test_the_command_starts(tmp_path):
    command = [sys.executable, "-m", "care", "--version"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == f"care {care.__version__}\n"


HEAVY = {"torch._dynamo", "torch", "numpy", "matplotlib", "timm", "torchvision", "scipy", "sklearn", "PIL"}
MISSPELT = """
import contextlib, io, sys
from care.cli import COMMANDS, main

for words in [*((name, word) for name in COMMANDS for word in ("--help", "--nosuch")), ("train",)]:
    sys.argv = ["care", *words]
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        with contextlib.suppress(SystemExit):
            main()
    assert out.getvalue() if "--help" in words else err.getvalue().startswith("care: "), words
print(*sys.modules)
import care.cli.train_setup
print(*sys.modules)
"""


def test_no_command_waits_for_libraries_that_few_need():
    """Help and mistakes do not need torch; training needs nothing that draws, and timm only for its network."""
    done = subprocess.run([sys.executable, "-c", MISSPELT], capture_output=True, text=True, check=True)
    told, trained = (HEAVY & set(line.split()) for line in done.stdout.splitlines())
    assert told == set()
    assert trained == {"torch", "numpy", "PIL"}


@pytest.mark.parametrize("name", COMMANDS)
def test_help_says_of_a_command_what_the_command_says_of_itself(name):
    """It is known before the command is imported."""
    said = load_command(name).help
    assert said.partition("\n\n")[0].replace("\n", " ") == COMMANDS[name][1]


PANELS = {
    "Start": ["demo", "data", "augment"],
    "Train": ["train", "recipes", "bench"],
    "Measure": ["evaluate", "measure", "transfer", "robustness", "compare"],
    "Use": ["steer", "retrieve", "explore", "export"],
    "Paper": ["reproduce"],
}


def test_commands_are_listed_by_what_they_are_for():
    """And each that there is in one panel."""
    panels = re.findall(r"╭─ (\w+) ─.*?\n(.*?)╰", run("--help"), flags=re.DOTALL)
    listed = {title: re.findall(r"^│ ([a-z]+) ", body, flags=re.MULTILINE) for title, body in panels}
    assert {title: listed[title] for title in PANELS} == PANELS
    assert list(listed) == ["Options", *PANELS]
    assert sorted(name for names in PANELS.values() for name in names) == sorted(COMMANDS)


def test_what_the_package_offers_is_there_when_asked_for():
    offered = set(care.__all__) - {"__version__"}
    assert offered <= set(dir(care))
    assert all(getattr(care, name) is not None for name in offered)
    assert care.measure is care.evaluate.measure
    with pytest.raises(AttributeError, match="no attribute 'mesure'"):
        care.mesure  # noqa: B018


@pytest.mark.parametrize("name", COMMANDS)
def test_lines_of_help_are_as_long_as_they_can_be(name):
    """Greedy wrapping: the first word of a line would not have fitted on the line before it."""
    text = run(name, "--help", width=80).partition("╭")[0]
    for paragraph in re.split(r"\n\s*\n", text.partition("Examples:")[0]):
        lines = [line.strip() for line in paragraph.strip().splitlines()]
        for line, after in itertools.pairwise(lines):
            assert len(line) + 1 + len(after.split()[0]) > 78


def test_every_example_of_help_has_a_line():
    examples = run("train", "--help").partition("Examples:")[2].partition("╭")[0].strip().splitlines()
    assert len(examples) == 4
    assert all(line.strip().startswith("care train ") for line in examples)


def test_help_says_where_to_start():
    assert "care demo" in run("--help")


def test_augment_draws_a_gallery(picture):
    output = run("augment", picture, picture, "--policy", "cifar10", "--columns", "3", "--out", "grid.png")
    assert "ImageParameters of 3" in output
    width, height = size_of("grid.png")
    assert width > height > 100


def test_augment_shows_what_training_sees(picture, tmp_path):
    """Pictures of 40 px get the augmentations of CIFAR at their own size, larger ones those of photos at 224."""
    Image.new("RGB", (300, 280)).save("large.png")
    seen = [run("augment", name, "--columns", "1") for name in (picture, "large.png")]
    assert ["blur" in words for words in seen] == [False, True], seen
    for name, options, side in ((picture, {}, 40), ("large.png", {}, 224), ("large.png", {"pixels": 64}, 64)):
        folder = tmp_path / "photos" / "train"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for copy in range(8):
            shutil.copy(name, folder / f"{copy}.png")
        config = fitted_config(str(folder.parent), **options)
        policy = fitted_policy(None, options.get("pixels", min(size_of(name))))
        assert (policy, policy.size) == (policy_for(config.policy, config.size), side)


def test_the_same_seed_draws_the_same_gallery(picture, tmp_path):
    for name in ("a.png", "b.png"):
        run("augment", picture, "--seed", "3", "--columns", "2", "--out", name)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--policy", "resnet"), "unknown policy 'resnet': choose one of simclr"),
        (("--out", "grid.txt"), "--out must end in .png, .svg or .pdf"),
        (("--out", "missing/grid.png"), "missing/grid.png"),
        (("--columns", "0"), "columns"),
    ],
)
def test_mistakes_are_told_in_a_line(picture, args, message):
    output = run("augment", picture, *args, code=2)
    assert message in output
    assert "Traceback" not in output


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["train", "--epoch", "3"], "No such option: --epoch"),
        (["train", "--data", "shapes", "--epochs", "many"], "--epochs"),
        (["train", "--data", "shapes", "--equivariance", "care", "--chunks", "3"], "these do: 1, 2, 4, 8"),
        (["train", "--data", "shapes", "--method", "simclear"], "method must be one of simclr, mocov2"),
        (["train", "--data", "cifar11"], "no data set is called 'cifar11'"),
        (["train", "--recipe", "nothing"], "`care recipes` lists them"),
        (["train"], "say what to train on"),
        (["tran"], "No such command 'tran'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
@pytest.mark.usefixtures("unchecked")
def test_mistakes_take_one_line(args, message, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CARE_DATA", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["care", *args])
    with pytest.raises(SystemExit) as stopped:
        main()
    error = capsys.readouterr().err
    assert stopped.value.code == 2
    assert message in error
    assert error.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_recipes_are_listed():
    assert "cifar10-ablation-uniformity-equivariance" in run("recipes")


@pytest.mark.parametrize("columns", ["40", "80", "200"])
def test_no_cell_of_the_recipes_is_cut(columns):
    """In a narrow terminal, in which it is turned, in a pipe, which counts as one of 80 columns, and in a wide one."""
    known, output = recipes(), CliRunner().invoke(app, ["recipes"], env={"COLUMNS": columns}).output
    assert "…" not in output
    rows: dict[str, list[str]] = {}
    for words in (line.split() for line in output.splitlines() if line):
        if words[0] == "name:" or words[0] in known:
            name = words[-1] if words[0] == "name:" else words[0]
            rows.setdefault(name, []).extend(words[1:] if words[0] != "name:" else [])
        elif columns == "40" and rows:
            rows[name].append(words[-1])
    for name, config in known.items():
        weight = config.flat().get("care_weight")
        chosen = [config.method.name, config.equivariance.name, "–" if weight is None else f"{weight:.3g}"]
        assert rows[name][:3] == chosen
        assert rows[name][4:] == [config.model, str(config.epochs), str(config.batch_size)]
