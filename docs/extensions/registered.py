"""Every registered method and equivariance: its formula, its settings, its command."""

import dataclasses
import importlib
import re
from typing import Any

from care.objective.registry import REGISTERED, find

TITLES = {"method": "Methods", "equivariance": "Equivariances"}
INTRODUCTION = """# Every setting of every method

What `care train --method` and `care train --equivariance` take, from the source. What each keeps, and what was
measured: [methods](../catalogue.md).
"""


def methods_page() -> str:
    """A section for each, by kind."""
    parts = [INTRODUCTION]
    for kind, title in TITLES.items():
        parts += [f"## {title}", *(_section(kind, name) for name in REGISTERED[kind])]
    return "\n\n".join(parts) + "\n"


def _section(kind: str, name: str) -> str:
    found = find(kind, name)
    source = importlib.import_module(found.__module__)
    said = [_plain(source.__doc__), _plain(found.__doc__)]
    command = f"```\ncare train --data shapes --{kind} {name}\n```"
    return "\n\n".join([f"### {name}", *said, command, _settings(found.Settings)])


def _settings(settings: Any) -> str:
    fields = dataclasses.fields(settings)
    if not fields:
        return "It has no settings of its own."
    rows = [f"| `--{f.name.replace('_', '-')}` | {_value(f.default)} | {_plain(f.metadata['help'])} |" for f in fields]
    return "\n".join(["| setting | default | |", "|---|---|---|", *rows])


def _value(value: Any) -> str:
    return "–" if value is None or value is dataclasses.MISSING else f"`{value}`"


def _plain(text: str | None) -> str:
    """A docstring in Markdown: only `code` is marked up."""
    lines = "\n".join(line.strip() for line in (text or "").strip().splitlines())
    parts = lines.split("`")
    return "`".join(part if i % 2 else re.sub(r"([*_|<\[\\])", r"\\\1", part) for i, part in enumerate(parts))
