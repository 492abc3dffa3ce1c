"""`care demo`: see the paper's claim without data and without a GPU."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from care import demo as demo_run
from care.cli.mistakes import users_input
from care.data import generate_chains
from care.report import orbit_figure

EXPLANATION = """
Each rotation a of the input was applied to all clouds. If it acts on the
embedding as one rotation R, then R, fitted on half of the clouds, explains the
other half.

  moved by   mean distance between f(x) and f(a(x)): 0 is invariant
  held-out   error of R on clouds it was not fitted on, relative to no rotation
             at all: 0 is exact, 1 is no better
  composed   the same for two rotations in a row and the product R_b R_a
  γ_f, W_f   the paper's relative equivariance and Wahba error; W_f also falls
             when nothing moves, γ_f also when everything moves
  1-NN       how often the nearest neighbor is of the same class (by chance
             10 %): an encoder that keeps the orientation of a cloud spends
             room on it
"""


def demo(
    out: Annotated[Path, typer.Option(help="Folder for orbits.png and demo.json.")] = Path("care-demo"),
    seed: Annotated[int, typer.Option(help="The same seed gives the same numbers on the same machine.")] = 0,
    steps: Annotated[int, typer.Option(min=1, help="Training steps per encoder.")] = demo_run.STEPS,
) -> None:
    """Train three small encoders of 3-D point clouds and see how rotating a cloud acts on its embedding.

    Takes about a minute on two CPU cores. Nothing is downloaded.
    """
    with users_input():
        out.mkdir(parents=True, exist_ok=True)
    test = generate_chains(1000, seed=2, points=demo_run.POINTS)
    rows, orbits, console = {}, {}, Console()
    with Progress(console=console) as progress:
        for name, loss in demo_run.MODELS.items():
            task = progress.add_task(name, total=steps)
            embed = demo_run.train(loss, seed, steps, tick=lambda task=task: progress.advance(task))  # type: ignore[misc]
            rows[name], orbits[name] = demo_run.measure(embed, test), demo_run.orbits(embed, test)
    console.print(_table(rows))
    console.print(EXPLANATION, highlight=False)
    orbit_figure(orbits).savefig(out / "orbits.png", dpi=120)
    (out / "demo.json").write_text(json.dumps({name: row.to_json() for name, row in rows.items()}, indent=2) + "\n")
    console.print(f"{out / 'orbits.png'}: embeddings of six clouds while each is turned through 360°", highlight=False)


def _table(rows: dict[str, demo_run.Row]) -> Table:
    table = Table(title="Rotating 1,000 unseen clouds, mean over 10 rotations")
    for column in ("trained with", "moved by", "held-out", "composed", "γ_f", "W_f", "1-NN"):
        table.add_column(column, justify="left" if column == "trained with" else "right")
    for name, row in rows.items():
        numbers = (row.invariance, row.heldout_ratio, row.composition_defect, row.gamma, row.wahba)
        table.add_row(name, *(f"{number:.3f}" for number in numbers), f"{100 * row.nearest_neighbor:.0f} %")
    return table
