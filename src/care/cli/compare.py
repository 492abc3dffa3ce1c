"""`care compare`: evaluated models side by side."""

import json
from pathlib import Path
from typing import Annotated

import typer

from care.cli.errors import users_input
from care.cli.outputs import claim_folder, save_figures
from care.cli.progress import progress_bars
from care.tables import WIDE, visible


def compare(
    runs: Annotated[
        list[Path], typer.Argument(help="Evaluated runs, or folders that care evaluate or care transfer wrote.")
    ],
    out: Annotated[Path, typer.Option(help="Where to write the table, the figures and comparison.json.")] = Path(
        "comparison"
    ),
) -> None:
    """Put evaluated runs side by side: one table, paired figures, and which differences are certain.

    Every run is compared with the first one, output by output, image by image and augmentation by augmentation.
    Each paired difference comes with its own 95 % interval (Student's t). A difference is certain, "yes", if it stays
    significant after Holm's correction for all differences of the table, else "undecided". Verdicts cover other images
    and augmentations, not other pretraining seeds: every run is one seed. Results of [bold]care transfer[/bold] in the
    folders are compared, too.

    Example: [bold]care compare runs/simclr runs/care[/bold]
    """
    with users_input():
        if len(runs) < 2:
            raise ValueError("there is nothing to compare: give at least two runs")
        names = _names(runs)
        for run in runs:
            if not run.exists():
                raise ValueError(f"{run} does not exist: give the folder of a run")
        from care.atomic_files import write_atomically
        from care.evaluate import Evaluation, compare_evaluations, figures
        from care.evaluate.comparison.compare import check_paired
        from care.evaluate.evaluation import RECORD
        from care.evaluate.transfer.result import load_transfers, transfer_quantities
        from care.report import differences_figure
        from care.train import Run

        transfers = load_transfers(dict(zip(names, runs, strict=True)))
        evaluated = {name: _folder(run) for name, run in zip(names, runs, strict=True)}
        if len(transfers) == len(runs) and not any((folder / RECORD).exists() for folder in evaluated.values()):
            evaluated = {}  # only transfers to compare
        evaluations = {name: Evaluation.load(folder) for name, folder in evaluated.items()}
        logs = {name: Run(run).log() for name, run in zip(names, runs, strict=True)}
        check_paired(evaluations)
        claim_folder(out)
    with progress_bars() as progress:
        more = {name: transfer_quantities(transfer) for name, transfer in transfers.items()}
        comparison = compare_evaluations(evaluations, more)
        pictures = figures(evaluations, logs) if evaluations else {}
        for name in names[1:]:
            rows, known = comparison.rows(name), len(comparison.differences[name])
            title = f"{name} against {names[0]}: {len(rows)} of {known} differences"
            pictures[f"differences-{name}"] = differences_figure(rows, title)
        save_figures(pictures, out, progress)
    text = json.dumps(comparison.to_json(), indent=1, allow_nan=False)
    write_atomically(out / "comparison.json", text.encode())
    write_atomically(out / "comparison.txt", (comparison.table(WIDE) + "\n").encode())
    typer.echo(f"{comparison.table()}\n\n{out}")


def _folder(run: Path) -> Path:
    return run / "evaluation" if (run / "evaluation").is_dir() else run


def _names(runs: list[Path]) -> list[str]:
    """The last part of each path, with as many parent folders as it takes to tell the paths apart."""
    resolved = [run.resolve().parts for run in runs]
    for depth in range(1, max(map(len, resolved)) + 1):
        names = [visible("-".join(parts[-depth:])) for parts in resolved]
        if len(set(names)) == len(names):
            return names
    raise ValueError("the same run was given twice: give different ones")
