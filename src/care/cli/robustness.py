"""`care robustness`: how much does a classifier of frozen features lose on corrupted images?"""

import json
from pathlib import Path
from typing import Annotated

import typer

from care.cli.errors import users_input
from care.cli.options import BatchSize, Device, Mean, Policy, Size, Std, channels
from care.cli.outputs import claim_folder, save_figures
from care.cli.progress import progress_bars


def robustness(
    models: Annotated[
        list[str], typer.Argument(help="Run folders, or any models that [bold]care measure[/bold] takes.")
    ],
    data: Annotated[
        str | None, typer.Option("--data", help="A data set. Default: what the runs were trained on.")
    ] = None,
    images: Annotated[
        int | None, typer.Option(min=20, help="Use only the first N images of every split. Default: all.")
    ] = None,
    policy: Policy = None,
    size: Size = None,
    mean: Mean = None,
    std: Std = None,
    seed: Annotated[int, typer.Option(help="The same seed draws the same noise.")] = 0,
    batch_size: BatchSize = None,
    device: Device = "auto",
    out: Annotated[Path, typer.Option(help="Where to write.")] = Path("robustness"),
) -> None:
    """Fit a classifier to clean images and test it on images with increasingly strong corruptions.

    The classifier is the logistic regression of [bold]care transfer[/bold], fitted once. The corruptions are
    brightness, contrast, saturation, hue, blur, solarize, crop and noise, in five strengths each.

    Prints a table, and writes robustness.json and the curves as PNG and SVG.

    Example: [bold]care robustness runs/simclr runs/mine[/bold]
    """
    with users_input():
        normalization = channels("--mean", mean), channels("--std", std)
        from care.atomic_files import write_atomically
        from care.cli.evaluation_setup import ModelOptions, config_of, data_of
        from care.cli.frozen_models import frozen_models, requested_models
        from care.evaluate import measure_robustness
        from care.evaluate.robustness.measure import check_images, robustness_figure_of, robustness_table
        from care.evaluate.transfer.downstream import load_downstream
        from care.provenance import provenance

        options = [ModelOptions(model, None, None, policy, size, normalization, device, batch_size) for model in models]
        requested = requested_models(options)
        downstream = load_downstream(data or data_of(map(config_of, models), "what to test them on"), images)
        check_images(downstream)
        loaded = frozen_models(requested, [downstream])
        claim_folder(out)
        where = options[0].on
    with progress_bars() as progress:
        settings = {"seed": seed, "batch_size": batch_size, "device": where, "progress": progress}
        found = {
            model.name: measure_robustness(model.features, downstream, model.policy, name=model.name, **settings)  # type: ignore[arg-type]
            for model in loaded
        }
        counts = {"train_images": len(downstream.train), "test_images": len(downstream.test)}
        about = {"data": downstream.name, **counts, "seed": seed, "made": provenance(str(where))}
        record = {"about": about, "models": {name: measured.to_json() for name, measured in found.items()}}
        write_atomically(out / "robustness.json", json.dumps(record, indent=1, allow_nan=False).encode())
        save_figures({"robustness": robustness_figure_of(found)}, out, progress)
    table = robustness_table(found)
    write_atomically(out / "robustness.txt", (table + "\n").encode())
    typer.echo(f"{table}\n\n{out}")
