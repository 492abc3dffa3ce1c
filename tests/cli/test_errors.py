"""Errors of the library on the command line: settings become options."""

import ast
import re
from pathlib import Path

import care
from care.cli import COMMANDS, load_command
from care.cli.errors import as_options

PACKAGE = Path(care.__file__).parent


def options():
    """The options of all commands, with those of their subcommands."""
    commands = [load_command(name) for name in COMMANDS]
    every = [part for command in commands for part in getattr(command, "commands", {"": command}).values()]
    return {option for command in every for parameter in command.params for option in parameter.opts}


def named_in_errors():
    """The words in backticks that errors of the library hold, with their files."""
    for file in PACKAGE.rglob("*.py"):
        raised = [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Raise)]
        texts = [part.value for node in raised for part in ast.walk(node) if isinstance(part, ast.Constant)]
        for text in texts:
            yield from ((file.name, name) for name in re.findall("`([a-z_]+)`", text if isinstance(text, str) else ""))


def test_settings_are_named_as_options_of_the_same_width():
    text = "choose a smaller `batch_size`, or see `care data list` and `classes`"
    assert as_options(text) == "choose a smaller --batch-size, or see `care data list` and --classes"
    assert len(as_options(text)) == len(text)


def test_what_errors_name_are_options():
    known, found = options(), list(named_in_errors())
    assert len(found) > 20
    assert {(file, name) for file, name in found if as_options(f"`{name}`") not in known} == set()
