"""Where a reproduction is written: the table, the figures, a page, and a record of what it was made from."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from care.durable import make_folder, write_atomically
from care.reproduce.presentation import Presentation
from care.reproduce.trial import Outcome


def write_reproduction(name: str, scale: str, presented: Presentation, outcomes: Sequence[Outcome], out: Path) -> Path:
    """Write `table.md`, the figures as PNG, and `NAME.json` into a folder of its own; returns the folder."""
    folder = out / scale / name
    make_folder(folder)
    for title, figure in presented.figures.items():
        figure.savefig(folder / f"{title}.png", dpi=120)
    command = f"care reproduce {name} --scale {scale}"
    write_atomically(folder / "table.md", f"`{command}`\n\n{presented.markdown()}".encode())
    record = {
        "command": command,
        "table": {"header": list(presented.header), "rows": [list(row) for row in presented.rows]},
        "remarks": list(presented.remarks),
        "trials": [_made(outcome) for outcome in outcomes],
    }
    write_atomically(folder / f"{name}.json", json.dumps(record, indent=1, ensure_ascii=False).encode() + b"\n")
    return folder


def _made(outcome: Outcome) -> dict[str, Any]:
    """Which trial, and with what it was made."""
    trial = outcome.trial
    return {"label": trial.label, "trial": trial.slug, "seed": trial.config.seed, **outcome.made}
