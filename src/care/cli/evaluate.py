"""`care evaluate`: how good are the features of a model, and how do augmentations act on them?"""

import time
from pathlib import Path
from typing import Annotated

import typer

from care.cli.errors import users_input
from care.cli.options import AnyModel, BatchSize, Data, Device, Layer, Mean, Policy, Seed, Size, Std, channels
from care.cli.outputs import claim_folder, save_figures
from care.cli.progress import progress_bars
from care.tables import wrapped


def evaluate(
    model: AnyModel,
    data: Data = None,
    split: Annotated[str | None, typer.Option(help="Default: the run's validation samples, else test or val.")] = None,
    policy: Policy = None,
    size: Size = None,
    images: Annotated[
        int | None,
        typer.Option(min=20, help="Use only the first N images of the split, and 20 N training images. Default: all."),
    ] = None,
    augmentations: Annotated[
        int, typer.Option(min=1, max=100_000, help="How many augmentations to draw, per family.")
    ] = 20,
    probe: Annotated[str, typer.Option(help="Protocol of the linear probe: paper, imagenet100 or none.")] = "paper",
    probe_on: Annotated[
        str,
        typer.Option(
            help="What the probe is trained on: clean images, crops (random crops and flips), augmented images, or "
            "bn-train: augmented images with BatchNorm in training mode."
        ),
    ] = "clean",
    probe_epochs: Annotated[int | None, typer.Option(min=1, help="Default: the protocol's.")] = None,
    learning_rate: Annotated[
        list[float] | None, typer.Option(help="Of the probe. If several are given, held-out training images choose.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, max=1000, help="How many probes to train.")] = 5,
    logistic: Annotated[
        bool, typer.Option(help="The tuned probe: a logistic regression. Held-out training images choose its penalty.")
    ] = True,
    neighbors: Annotated[
        list[int] | None, typer.Option(help="The k of kNN; give several. Default: 20 and 200.")
    ] = None,
    temperature: Annotated[float, typer.Option(help="The τ of kNN: a neighbor's vote weighs exp(cos/τ).")] = 0.07,
    project: Annotated[
        list[int] | None,
        typer.Option(help="Also measure the embedding projected to N directions, a control for split embeddings."),
    ] = None,
    layer: Layer = None,
    mean: Mean = None,
    std: Std = None,
    seed: Seed = 0,
    batch_size: BatchSize = None,
    device: Device = "auto",
    out: Annotated[Path | None, typer.Option(help="Where to write. Default: the folder evaluation in the run.")] = None,
) -> None:
    """Measure everything: linear classifiers, kNN, geometry by augmentation family, retrieval, decoding.

    Prints tables and writes evaluation.json, arrays for [bold]care compare[/bold], and the figures as PNG and SVG.
    Classifiers need the split train. Without that split, use --no-logistic --probe none; kNN is then left out.

    Example: [bold]care evaluate runs/mine[/bold]
    """
    started = time.perf_counter()
    with users_input():
        normalization = channels("--mean", mean), channels("--std", std)
        from care.cli.evaluation_setup import ModelOptions, is_run, setup_of
        from care.evaluate import EvaluationSettings, evaluate_model, figures, summary
        from care.evaluate.features.knn import NEIGHBORS
        from care.train import Run

        settings = EvaluationSettings(
            images=images,
            augmentations=augmentations,
            probe=probe,
            probe_on=probe_on,  # type: ignore[arg-type]
            probe_epochs=probe_epochs,
            learning_rates=tuple(learning_rate) if learning_rate else None,
            seeds=seeds,
            logistic=logistic,
            neighbors=tuple(neighbors or NEIGHBORS),
            temperature=temperature,
            projections=tuple(project or ()),
            seed=seed,
        )
        options = ModelOptions(model, data, split, policy, size, normalization, device, batch_size, layer)
        setup = setup_of(
            options, "needed" if settings.fits_classifiers else "used", lambda note: typer.echo(wrapped(note), err=True)
        )
        setup.check(settings)
        if neighbors and (note := setup.note_on_neighbors(settings)):
            typer.echo(wrapped(note), err=True)
        run = Run(Path(model)) if is_run(model) else None
        logs = {setup.model: run.log()} if run else {}
        folder = out or (run.folder / "evaluation" if run else Path(f"evaluation-{setup.model}"))
        claim_folder(folder)
    with progress_bars() as progress:
        evaluation = evaluate_model(setup, settings, progress)
        evaluation.save(folder)
        save_figures(figures({setup.model: evaluation}, logs), folder, progress)
    typer.echo(f"{summary(evaluation)}\n\n{folder}: written after {time.perf_counter() - started:.1f} s in all")
