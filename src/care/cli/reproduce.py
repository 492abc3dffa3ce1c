"""`care reproduce`: the paper's figures and tables, computed again."""

import time
from pathlib import Path
from typing import Annotated

import typer

from care.cli.errors import users_input
from care.cli.interrupts import ending_in_one_line
from care.cli.options import Device
from care.cli.outputs import claim_folder
from care.cli.progress import progress_bars
from care.tables import paragraphs, text_table, wrapped


def reproduce(
    names: Annotated[
        list[str] | None, typer.Argument(help="The figures and tables to reproduce. Without a name, list them all.")
    ] = None,
    scale: Annotated[
        str,
        typer.Option(
            help="smoke: minutes on a CPU, on made-up images. small: ResNet-18, 100 epochs. long: 400 epochs. "
            "deep: ResNet-50, 100 epochs. paper: as the paper did."
        ),
    ] = "small",
    out: Annotated[Path, typer.Option(help="Folder for tables, figures and the results of trials.")] = Path("results"),
    runs: Annotated[Path, typer.Option(help="Folder for the runs: checkpoints and weights.")] = Path("runs"),
    device: Device = "auto",
    compile: Annotated[bool, typer.Option(help="As care train --compile.")] = False,
    show: Annotated[bool, typer.Option("--trials", help="List the trials, done or not, and stop.")] = False,
    data: Annotated[list[str] | None, typer.Option(help="Only trials on this data set. Can be repeated.")] = None,
    part: Annotated[list[str] | None, typer.Option(help="Only trials with this label. Can be repeated.")] = None,
    seed: Annotated[list[int] | None, typer.Option(help="Only trials with this seed. Can be repeated.")] = None,
    done: Annotated[bool, typer.Option("--done", help="Only trials that are done: train nothing.")] = False,
) -> None:
    """Reproduce a figure or table of the paper: train, measure, and write the results beside the paper's numbers.

    Finished trials are read from --out, stopped ones go on from their checkpoint, and several processes share the work
    if they run the same command in the same folders: on one GPU, one trains while another measures.

    Examples:
    [bold]care reproduce[/bold]
    [bold]care reproduce lambda-sweep --scale smoke[/bold]
    """
    begun = time.perf_counter()  # before torch is imported: how long a trial takes from a cold start is measured, too
    from care.cli.trial_filter import Only, list_studies, list_trials
    from care.reproduce import Runner, marked, run_trials, scale_named, study_named, unprepared_data
    from care.reproduce import write_reproduction as write
    from care.train.job import load_samples

    if not names:
        list_studies()
        return
    with users_input():
        size = scale_named(scale)
        only = Only(data or [], part or [], seed or [], done)
        only.check(names, size)
        runner = Runner(runs, out / size.name / "trials", device, compile, begun)
        studies = {name: only.of(study_named(name), size, runner) for name in names}
        if show:
            list_trials(studies, size, runner)
            return
        missing = [trial for trials in studies.values() for trial in trials if not runner.find(trial)]
        for config in {trial.config.data: trial.config for trial in missing}.values():
            load_samples(runner.on_device(config))
        claim_folder(out)
    for data_set in unprepared_data(missing):
        sentence = f"without transfer to {data_set}, which is not prepared: care data prepare {data_set}"
        typer.echo(wrapped(sentence), err=True)
    leave_out = "leave that trial out by naming the others with --part"
    with ending_in_one_line("the same command goes on", leave_out), progress_bars() as progress:
        for name, trials in studies.items():
            outcomes = run_trials(trials, runner, progress)
            presented = marked(study_named(name).present(outcomes), outcomes)
            folder = out / size.name / name
            write(folder, only.command(name, scale), presented, outcomes)
            typer.echo(text_table(name, presented.header, presented.rows))
            typer.echo("\n" + "\n\n".join(filter(None, (paragraphs(presented.remarks), str(folder)))))
