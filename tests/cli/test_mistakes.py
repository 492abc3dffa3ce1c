"""A user's mistake is printed in one line that names the culprit, with exit code 2, before anything is written.

A bug keeps its traceback.
"""

import functools
import os
import re
import subprocess
import sys
import warnings

import pytest
from rich.console import Console

from care.cli import errors, load_command, main
from care.data import registry
from care.pretrained import load_pretrained
from cli.mistaken import MISTAKES
from cli.world import make_world


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return make_world(tmp_path_factory.mktemp("world"))


WORK = {
    "train": "care.train.train",
    "evaluate": "care.evaluate.evaluate_model",
    "measure": "care.evaluate.measure_model",
    "bench": "care.bench.measure_speed",
    "transfer": "care.evaluate.measure_transfer",
    "robustness": "care.evaluate.measure_robustness",
}


made_once = functools.cache(load_command)  # a command of eighty options takes a third of the time of a mistake


def fails(args, capsys):
    """(exit code, what is on the error stream) of a command run in this process."""
    sys.argv[1:] = args
    with pytest.raises(SystemExit) as stopped:
        main()
    return stopped.value.code, capsys.readouterr().err


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("command", MISTAKES)
def test_a_mistake_takes_one_line(command, world, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(world)
    monkeypatch.setenv("CARE_DATA", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["care"])
    monkeypatch.setattr("care.cli.load_command", made_once)
    for work in WORK.values():
        monkeypatch.setattr(work, lambda *_, **__: pytest.fail("the mistake was not seen"))
    before = sorted(world.rglob("*"))
    code, error = fails(command.split(), capsys)
    assert (code, error.count("\n")) == (2, 1), error
    assert error.startswith("care: ")
    assert re.search(MISTAKES[command], error), error
    assert "[Errno" not in error
    assert sorted(world.rglob("*")) == before


def test_a_mistake_takes_one_line_in_a_process_of_its_own(world):
    """As a user starts it: nothing of Python, of a library or of a warning is seen."""
    environment = {**os.environ, "CARE_DATA": str(world / "root"), "NO_COLOR": "1"}
    started = [sys.executable, "-m", "care", "evaluate", "mine", "--learning-rate", "-1"]
    done = subprocess.run(started, cwd=world, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert re.fullmatch(r"care: .+\n", done.stderr)


def test_a_group_of_commands_alone_prints_its_help(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["care", "data"])
    with pytest.raises(SystemExit, match="2"):
        main()
    printed = capsys.readouterr()
    assert "prepare" in printed.out
    assert printed.err == ""


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("ours", [TypeError, KeyError, RuntimeError, AssertionError, IndexError])
def test_our_errors_keep_their_traceback(ours, monkeypatch, tmp_path):
    """Also where the user's input is read: only what is meant for the user is a ValueError."""

    def broken(*_):
        raise ours("our fault")

    monkeypatch.setattr(registry, "prepared_splits", broken)
    monkeypatch.setattr(sys, "argv", ["care", "data", "check", "cifar10", "--root", str(tmp_path)])
    with pytest.raises(ours, match="our fault"):
        main()


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("name", ["evaluate", "measure"])
def test_a_value_error_of_the_work_itself_is_ours(name, world, monkeypatch, tmp_path):
    def broken(*_, **__):
        raise ValueError("our fault")

    monkeypatch.setattr(WORK[name], broken)
    command = ["care", name, str(world / "mine"), "--out", str(tmp_path / "out"), "--device", "cpu"]
    data = ["--data", str(world / "data")] if name == "measure" else []
    monkeypatch.setattr(sys, "argv", command + data)
    with pytest.raises(ValueError, match="our fault"):
        main()


def test_a_line_shows_what_it_holds_and_obeys_none_of_it(monkeypatch, capsys):
    """Markup, emoji names, escape sequences, new lines and text that runs backwards, as the name of a file may have."""
    monkeypatch.setattr(errors, "Console", lambda **options: Console(**options, force_terminal=True, width=40))
    name = "[red]x[/red] :cat: \x1b[31m \x07 \n \u202e \udcff.png"
    with pytest.raises(errors.typer.Exit), errors.users_input():
        raise ValueError(f"{name} cannot be read")
    shown = capsys.readouterr().err
    assert shown.endswith(r"[red]x[/red] :cat: \x1b[31m \x07   \u202e \udcff.png cannot be read" + "\n")
    assert shown.count("\n") == 1
    assert shown.count("\x1b") == 2  # the color of "care:", and its end


@pytest.mark.parametrize("what", ["timm/test_resnet@random", "timm/test_resnet"])
def test_a_fault_of_ours_while_a_model_is_loaded_is_not_the_users(what, monkeypatch):
    def broken(*_, **__):
        raise TypeError("our fault")

    monkeypatch.setattr("timm.create_model", broken)
    monkeypatch.setattr("care.models.hub._ask_hub", lambda _: None)  # it has an answer
    with pytest.raises(TypeError, match="our fault"):
        load_pretrained(what)


def test_a_warning_of_ours_is_a_sentence_and_those_of_others_are_as_python_writes_them(capsys, monkeypatch):
    with warnings.catch_warnings():  # puts back what showed them before
        monkeypatch.setattr(sys, "argv", ["care", "--version"])
        with pytest.raises(SystemExit):
            main()
        for file, text in ((errors.__file__, "1.jpg cannot be read"), ("/elsewhere/torch.py", "old")):
            warnings.showwarning(UserWarning(text), UserWarning, file, 3)
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["care: 1.jpg cannot be read", "/elsewhere/torch.py:3: UserWarning: old"]


def test_ctrl_c_ends_in_a_word(world, monkeypatch, capsys):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("care.evaluate.evaluate_model", interrupted)
    monkeypatch.setattr(sys, "argv", ["care"])
    code, error = fails(["evaluate", str(world / "mine"), "--device", "cpu"], capsys)
    assert (code, error.splitlines()[-1]) == (130, "care: stopped")
