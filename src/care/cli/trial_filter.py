"""Select the trials of `care reproduce`, and list them."""

import shlex
from dataclasses import dataclass

import typer
from rich.console import Console
from rich.table import Column, Table

from care.reproduce import STUDIES, Reproduction, Runner, Scale, Trial, scale_named, study_named
from care.tables import text_table


@dataclass(frozen=True)
class Only:
    """A selection of trials: those with one of the given values; an empty list allows every value."""

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

    def of(self, study: Reproduction, size: Scale, runner: Runner) -> list[Trial]:
        """The trials of a study; ValueError if there are none."""
        trials = [trial for trial in study.trials(size) if self._takes(trial)]
        if not trials:
            labels = ", ".join(dict.fromkeys(trial.label for trial in study.trials(size)))
            raise ValueError(f"{study.name} has no such trial at scale {size.name}; it has {labels}")
        trials = [trial for trial in trials if not self.done or runner.find(trial)]
        if not trials:
            raise ValueError(f"no trial of {study.name} is done in {runner.kept}: leave out --done to train them")
        return trials

    def command(self, name: str, scale: str) -> str:
        """The command that computes this table again."""
        chosen = [(f"--{option}", str(value)) for option, values in self._wanted().items() for value in values]
        words = [*(word for pair in chosen for word in pair), *(["--done"] if self.done else [])]
        return shlex.join(["care", "reproduce", name, "--scale", scale, *words])

    def _wanted(self) -> dict[str, list[str] | list[int]]:
        return {"data": self.data, "part": self.part, "seed": self.seed}

    def _takes(self, trial: Trial) -> bool:
        return all(not wanted or _values(trial)[option] in wanted for option, wanted in self._wanted().items())


def _values(trial: Trial) -> dict[str, str | int]:
    return {"data": trial.config.data, "part": trial.label, "seed": trial.config.seed}


def list_studies() -> None:
    """Print the studies that can be reproduced."""
    table = Table(Column("name", no_wrap=True), "shows", "trials, small", "trials, paper")
    for study in STUDIES.values():
        counts = (str(len(study.trials(scale_named(name)))) for name in ("small", "paper"))
        table.add_row(study.name, study.shows, *counts)
    Console().print(table)


def list_trials(studies: dict[str, list[Trial]], size: Scale, runner: Runner) -> None:
    """Print the trials below their labels, and which of them are done."""
    for name, trials in studies.items():
        rows: list[tuple[str, str]] = []
        for label in dict.fromkeys(trial.label for trial in trials):
            slugs = ((f"  {t.slug}", "yes" if runner.find(t) else "no") for t in trials if t.label == label)
            rows += [(label, ""), *slugs]
        typer.echo(text_table(f"trials of {name} at scale {size.name}", ("label and trial", "done"), rows))
