"""What `care reproduce` has kept, as tables that can be sorted: each row with its command and its seeds."""

import json
import re
import shlex
from html import escape
from pathlib import Path
from typing import Any

from care.reproduce.scales import SCALES
from care.reproduce.studies import STUDIES

CLAIMS = re.compile(r"(?<=\| )\*\*([^*|]+)\*\*")
CLAIMS_HEADER = "| the paper says of CARE |"


def tables_page(results: Path) -> str:
    """A section for every table, by scale and study, as `care reproduce` lists them."""
    kept = [record for record in results.glob("*/*/*.json") if record.stem == record.parent.name]
    return "\n".join([INTRODUCTION, *map(_section, sorted(kept, key=_place))])


def _place(record: Path) -> tuple[int, int, str]:
    scale, name = record.parent.parent.name, record.stem
    places = [
        list(known).index(one) if one in known else len(known) for one, known in ((scale, SCALES), (name, STUDIES))
    ]
    return places[0], places[1], name


INTRODUCTION = """# All tables

Everything that `care reproduce` has kept in `results/`, study by study. Click on the head of a column to sort by it.
The command of a row trains and measures what the row shows; `--done` makes the table of what is there. What it means is
in [results](results.md). To choose a method by what it keeps and what it costs: [peers](#peers-small).
"""


def _section(path: Path) -> str:
    record = json.loads(path.read_text())
    name, scale = path.stem, path.parent.parent.name
    shows = STUDIES[name].shows if name in STUDIES else ""
    remarks = "\n".join(f"- {_as_text(remark)}" for remark in record.get("remarks", []))
    lines = [f"## {name}, {scale}", f"{shows[:1].upper()}{shows[1:]}.", f"```\n{record['command']}\n```"]
    return "\n\n".join([*lines, _table(record, name, scale), remarks, ""])


def _table(record: dict[str, Any], name: str, scale: str) -> str:
    """As HTML, inside an element that scrolls by itself."""
    header, seeds = record["table"]["header"], _seeds(record["trials"])
    head = "".join(f"<th>{escape(cell)}</th>" for cell in [*header[:-1], "seeds", "made with", "command"])
    body = "".join(_row(row, seeds, record["trials"], name, scale) for row in record["table"]["rows"])
    return f'<div class="sortable"><table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>'.replace(
        "\n\n", "\n"
    )


def _row(row: list[str], seeds: dict[str, str], trials: list[dict[str, Any]], name: str, scale: str) -> str:
    label = row[0]
    made = next((trial for trial in trials if trial["label"] == label), {})
    with_what = f"{made.get('hardware', '–')}, {made.get('date', '–')}"
    command = f"care reproduce {name} --scale {scale} --part {shlex.quote(label)}"
    cells = "".join(f"<td>{escape(cell)}</td>" for cell in [*row[:-1], seeds.get(label, row[-1]), with_what])
    return f"<tr>{cells}<td><code>{escape(command)}</code></td></tr>\n"


def _seeds(trials: list[dict[str, Any]]) -> dict[str, str]:
    """The seeds of every label, in words."""
    found: dict[str, list[str]] = {}
    for trial in trials:
        found.setdefault(trial["label"], []).append(str(trial["seed"]))
    return {label: ", ".join(sorted(seeds)) for label, seeds in found.items()}


def _as_text(text: str) -> str:
    return re.sub(r"([*_`<\[])", r"\\\1", text)


def claims_marked(page: str) -> str:
    """The table of the paper's claims, with what was found marked as yes, no or undecided."""
    before, header, after = page.partition(CLAIMS_HEADER)
    table, end, rest = after.partition("\n\n")
    marked = CLAIMS.sub(lambda match: f"[{match[0]}]{{.{verdict(match[1])}}}", table)
    return before + header + marked + end + rest


def verdict(words: str) -> str:
    """Yes, no or undecided, by the words in bold that begin what was found."""
    if "undecided" in words:
        return "undecided"
    return "yes" if re.search(r"\byes\b", words) else "no"
