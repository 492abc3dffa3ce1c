"""`care transfer`: how good are the features of models on other data sets?"""

from pathlib import Path
from typing import Annotated

import typer

from care.cli.errors import users_input
from care.cli.options import BatchSize, Device, Mean, Policy, Size, Std, channels
from care.cli.outputs import claim_folder, save_figures
from care.cli.progress import progress_bars
from care.tables import wrapped


def transfer(
    models: Annotated[
        list[str], typer.Argument(help="Run folders, or any models that [bold]care measure[/bold] takes.")
    ],
    to: Annotated[list[str], typer.Option(help="A data set of [bold]care data list[/bold]. Can be repeated.")],
    images: Annotated[
        int | None, typer.Option(min=20, help="Use only the first N images of every split. Default: all.")
    ] = None,
    tasks: Annotated[
        int, typer.Option(min=0, max=100_000, help="Number of 1-shot and of 5-shot tasks; 0 for none.")
    ] = 2000,
    few_labels: Annotated[bool, typer.Option(help="Also fit to 1 % and 10 % of the labels.")] = True,
    layer: Annotated[
        str | None,
        typer.Option(
            help="Put the features of this layer of the backbone (layer3, stages.2, blocks.6) beside the last ones."
        ),
    ] = None,
    policy: Policy = None,
    size: Size = None,
    mean: Mean = None,
    std: Std = None,
    seed: Annotated[int, typer.Option(help="The same seed draws the same labels and tasks.")] = 0,
    batch_size: BatchSize = None,
    device: Device = "auto",
    out: Annotated[
        Path | None,
        typer.Option(help="Where to write. Default: transfer, and without a layer each run's own results in the run."),
    ] = None,
) -> None:
    """Classify other data sets from frozen features: with all labels, with few of them, and in few-shot tasks.

    A logistic regression is fitted to the backbone's features of the clean images. One of 45 penalties is chosen on the
    split val, or on a fifth of train; then it is fitted to train and val, and tested on test. Few-shot tasks have 5
    classes of the split test.

    With [bold]--layer[/bold], both the last features and those of a layer are used, side by side. On ResNets, layer3
    often helps.

    Prints a table, and writes a figure and, for each model, transfer.json, which [bold]care compare[/bold] reads.

    Example: [bold]care transfer runs/simclr runs/mine --to cifar10 --to flowers102[/bold]
    """
    with users_input():
        normalization = channels("--mean", mean), channels("--std", std)
        from care.atomic_files import write_atomically
        from care.cli.evaluation_setup import ModelOptions, is_run
        from care.cli.frozen_models import frozen_models, requested_models
        from care.evaluate import Transfer, measure_transfer
        from care.evaluate.transfer.downstream import check_names, load_downstream
        from care.evaluate.transfer.result import transfer_figure_of, transfer_table
        from care.provenance import provenance

        options = [ModelOptions(model, None, None, policy, size, normalization, device, batch_size) for model in models]
        requested = requested_models(options)
        downstreams = [load_downstream(name, images) for name in to]
        check_names(downstreams)
        loaded = frozen_models(requested, downstreams, layer)
        folder = out or Path("transfer")
        alone = out is None and layer is None  # what a run keeps is of its last features
        inside = [Path(model) / "transfer" if alone and is_run(model) else None for model in models]
        folders = [own or folder / model.folder_name for own, model in zip(inside, loaded, strict=True)]
        for each in (folder, *folders):
            claim_folder(each)
    found = {}
    with progress_bars() as progress:
        for model, own in zip(loaded, folders, strict=True):
            settings = {"tasks": tasks, "few_labels": few_labels, "name": model.name, "seed": seed}
            where = {"batch_size": batch_size, "device": options[0].on, "progress": progress}
            measured = measure_transfer(model.features, downstreams, model.policy, **settings, **where)  # type: ignore[arg-type]
            found[model.name] = Transfer({**measured.record, "made": provenance(str(options[0].on))}, measured.arrays)
            found[model.name].save(own)
        save_figures({"transfer": transfer_figure_of(found)}, folder, progress)
    for sentence in next(iter(found.values())).left_out():
        typer.echo(wrapped(f"without few-shot tasks of {sentence}"), err=True)
    table = transfer_table(found)
    write_atomically(folder / "transfer.txt", (table + "\n").encode())
    typer.echo(f"{table}\n\n{folder}")
