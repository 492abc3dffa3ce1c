"""Write a reproduction: the table, the figures, and a record of the trials behind them."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from care.atomic_files import make_folder, write_atomically
from care.report.drawing import small_png
from care.reproduce.presentation import Presentation
from care.reproduce.trial import Outcome


def write_reproduction(folder: Path, command: str, presented: Presentation, outcomes: Sequence[Outcome]) -> None:
    """Write `table.md`, the figures as PNG, and a JSON named like the folder; `command` computes them again."""
    make_folder(folder)
    for title, figure in presented.figures.items():
        write_atomically(folder / f"{title}.png", small_png(figure))
    write_atomically(folder / "table.md", f"`{command}`\n\n{presented.markdown()}".encode())
    record = {
        "command": command,
        "table": {"header": list(presented.header), "rows": [list(row) for row in presented.rows]},
        "remarks": list(presented.remarks),
        "trials": [_made(outcome) for outcome in outcomes],
    }
    write_atomically(folder / f"{folder.name}.json", json.dumps(record, indent=1, ensure_ascii=False).encode() + b"\n")


def _made(outcome: Outcome) -> dict[str, Any]:
    """Which trial it was, and how it was made."""
    trial = outcome.trial
    return {"label": trial.label, "trial": trial.slug, "seed": trial.config.seed, **outcome.made}
