"""`care reproduce`: the paper's figures and tables, computed again."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Column, Table

from care.cli.ending import ending_in_one_line
from care.cli.mistakes import users_input
from care.cli.progress import progress_bars
from care.cli.saving import claim_folder
from care.reproduce import STUDIES, Reproduction, Scale, Trial, Workshop, carry_out_all, scale_named, study_named
from care.reproduce import write_reproduction as write
from care.tables import text_table
from care.train.loop import load_samples


@dataclass(frozen=True)
class _Only:
    """Which trials were asked for: those with one of these values, where there are any."""

    data: list[str]
    part: list[str]
    seed: list[int]
    done: bool

    def check(self, names: list[str], size: Scale) -> None:
        """ValueError if no trial of any of these studies has a value that was asked for."""
        trials = [trial for name in names for trial in study_named(name).trials(size)]
        for option, wanted in self._wanted().items():
            known = list(dict.fromkeys(_values(trial)[option] for trial in trials))
            for value in wanted:
                if value not in known:
                    raise ValueError(
                        f"no trial of {', '.join(names)} at scale {size.name} has --{option} {value}; "
                        f"choose from {', '.join(map(str, known))}"
                    )

    def of(self, study: Reproduction, size: Scale, workshop: Workshop) -> list[Trial]:
        trials = [trial for trial in study.trials(size) if self._takes(trial)]
        if not trials:
            labels = ", ".join(dict.fromkeys(trial.label for trial in study.trials(size)))
            raise ValueError(f"{study.name} has no such trial at scale {size.name}; it has {labels}")
        trials = [trial for trial in trials if not self.done or workshop.find(trial)]
        if not trials:
            raise ValueError(f"no trial of {study.name} is done in {workshop.kept}: leave out --done to train them")
        return trials

    def command(self, name: str, scale: str) -> str:
        """What computes this table again."""
        chosen = [(f"--{option}", str(value)) for option, values in self._wanted().items() for value in values]
        words = [*(word for pair in chosen for word in pair), *(["--done"] if self.done else [])]
        return shlex.join(["care", "reproduce", name, "--scale", scale, *words])

    def _wanted(self) -> dict[str, list[str] | list[int]]:
        return {"data": self.data, "part": self.part, "seed": self.seed}

    def _takes(self, trial: Trial) -> bool:
        return all(not wanted or _values(trial)[option] in wanted for option, wanted in self._wanted().items())


def _values(trial: Trial) -> dict[str, str | int]:
    return {"data": trial.config.data, "part": trial.label, "seed": trial.config.seed}


def reproduce(
    names: Annotated[
        list[str] | None, typer.Argument(help="Which of the paper's figures and tables. None: list them.")
    ] = None,
    scale: Annotated[
        str,
        typer.Option(
            help="smoke: minutes on a CPU, on made-up images. small: ResNet-18, 100 epochs. long: 400 epochs. "
            "deep: ResNet-50, 100 epochs. paper: as the paper did."
        ),
    ] = "small",
    out: Annotated[Path, typer.Option(help="Folder for tables, figures and what is kept of trials.")] = Path("results"),
    runs: Annotated[Path, typer.Option(help="Folder for the runs: checkpoints and weights.")] = Path("runs"),
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:1.")] = "auto",
    compile: Annotated[bool, typer.Option(help="As care train --compile.")] = False,
    show: Annotated[bool, typer.Option("--trials", help="Show the trials and what is done of them, and stop.")] = False,
    data: Annotated[list[str] | None, typer.Option(help="Only trials on this data set. May be given again.")] = None,
    part: Annotated[list[str] | None, typer.Option(help="Only trials with this label. May be given again.")] = None,
    seed: Annotated[list[int] | None, typer.Option(help="Only trials with this seed. May be given again.")] = None,
    done: Annotated[bool, typer.Option("--done", help="Only trials that are done: train nothing.")] = False,
) -> None:
    """Train and measure what a figure or table of the paper shows, and write it beside the paper's numbers.

    Trials that are done are found in --out, stopped ones go on from their checkpoint, and several processes may share
    the work by running the same command in the same folders.

    Examples: [bold]care reproduce[/bold], [bold]care reproduce lambda-sweep --scale smoke[/bold]
    """
    if not names:
        _list()
        return
    with users_input():
        size = scale_named(scale)
        only = _Only(data or [], part or [], seed or [], done)
        only.check(names, size)
        workshop = Workshop(runs, out / size.name / "trials", device, compile)
        studies = {name: only.of(study_named(name), size, workshop) for name in names}
        if show:
            _show(studies, size, workshop)
            return
        missing = [trial.config for trials in studies.values() for trial in trials if not workshop.find(trial)]
        for config in {config.data: config for config in missing}.values():
            load_samples(workshop.how(config))
        claim_folder(out)
    leave_out = "leave that trial out by naming the others with --part"
    with ending_in_one_line("the same command goes on", leave_out), progress_bars() as watch:
        for name, trials in studies.items():
            outcomes = carry_out_all(trials, workshop, watch)
            presented = study_named(name).present(outcomes)
            folder = out / size.name / name
            write(folder, only.command(name, scale), presented, outcomes)
            typer.echo(text_table(name, presented.header, presented.rows))
            typer.echo("".join(f"{remark}\n" for remark in presented.remarks) + f"\n{folder}")


def _list() -> None:
    table = Table(Column("name", no_wrap=True), "shows", "trials, small", "trials, paper")
    for study in STUDIES.values():
        counts = (str(len(study.trials(scale_named(name)))) for name in ("small", "paper"))
        table.add_row(study.name, study.shows, *counts)
    Console().print(table)


def _show(studies: dict[str, list[Trial]], size: Scale, workshop: Workshop) -> None:
    rows = [
        (name, trial.label, str(trial.config.seed), trial.slug, "yes" if workshop.find(trial) else "no")
        for name, trials in studies.items()
        for trial in trials
    ]
    typer.echo(text_table(f"trials at scale {size.name}", ("study", "label", "seed", "trial", "done"), rows))
