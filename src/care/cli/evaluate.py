"""`care evaluate`: how good are the features of a model, and how do augmentations act on them?"""

import time
from pathlib import Path
from typing import Annotated

import torch
import typer

from care import data
from care.augment import PRESETS
from care.cli.mistakes import users_input
from care.cli.progress import progress_bars
from care.cli.saving import claim_folder, save_figures
from care.cli.studies import check_study, heldout_samples, is_cut
from care.data import Samples, place
from care.evaluate import Settings, Study, evaluate_model, figures, summary
from care.geometry import form_named
from care.objective import policy_for
from care.pretrained import load_pretrained
from care.train import Config, Run
from care.train.distributed import resolve_device
from care.train.runs import load_trained


def evaluate(
    model: Annotated[str, typer.Argument(help="A run folder, or any model that [bold]care measure[/bold] takes.")],
    name: Annotated[
        str | None, typer.Option("--data", help="A data set. Default: what the run was trained on.")
    ] = None,
    split: Annotated[
        str | None, typer.Option(help="Default: what the run held out, test, val or its validation.")
    ] = None,
    policy: Annotated[str | None, typer.Option(help=f"One of {', '.join(PRESETS)}. Default: the run's.")] = None,
    images: Annotated[
        int | None, typer.Option(min=20, help="The first so many images of the split. Default: all.")
    ] = None,
    augmentations: Annotated[
        int, typer.Option(min=1, max=100_000, help="How many augmentations to draw, per family.")
    ] = 20,
    probe: Annotated[str, typer.Option(help="Protocol of the linear probe: paper, imagenet100 or none.")] = "paper",
    probe_on: Annotated[
        str, typer.Option(help="clean images, augmented ones, or bn-train: augmented, with BatchNorm in training mode.")
    ] = "clean",
    probe_epochs: Annotated[int | None, typer.Option(min=1, help="Default: the protocol's.")] = None,
    learning_rate: Annotated[
        list[float] | None, typer.Option(help="Of the probe. Give several: held-out training images choose.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, max=1000, help="How many probes to train.")] = 5,
    logistic: Annotated[
        float | None, typer.Option(help="Also the exact logistic regression with this penalty, such as 1.")
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed draws the same augmentations.")] = 0,
    batch_size: Annotated[int | None, typer.Option(min=1, help="Images at once. Default: what fits.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:1.")] = "auto",
    out: Annotated[Path | None, typer.Option(help="Where to write. Default: the folder evaluation in the run.")] = None,
) -> None:
    """Measure everything: linear probe, kNN, geometry by augmentation family, retrieval, decoding.

    Prints tables and leaves evaluation.json, arrays for [bold]care compare[/bold], and the figures as PNG and SVG.

    Example: [bold]care evaluate runs/mine[/bold]
    """
    started = time.perf_counter()
    with users_input():
        config = load_trained(Path(model)).config if Path(model).is_dir() else None
        settings = Settings(
            images=images,
            augmentations=augmentations,
            probe=probe,
            probe_on=probe_on,  # type: ignore[arg-type]
            probe_epochs=probe_epochs,
            learning_rates=tuple(learning_rate) if learning_rate else None,
            seeds=seeds,
            logistic=logistic,
            seed=seed,
        )
        study = study_of(model, config, name, split, policy, torch.device(resolve_device(device)), batch_size)
        logs = {study.model: Run(Path(model)).log()} if config else {}
        folder = out or (Path(model) / "evaluation" if config else Path(f"evaluation-{study.model}"))
        claim_folder(folder)
    with progress_bars() as watch:
        evaluation = evaluate_model(study, settings, watch)
        evaluation.save(folder)
        save_figures(figures({study.model: evaluation}, logs), folder, watch)
    typer.echo(f"{summary(evaluation)}\n\n{folder}: written after {time.perf_counter() - started:.1f} s in all")


def study_of(
    model: str,
    config: Config | None,
    name: str | None,
    split: str | None,
    policy: str | None,
    device: torch.device,
    batch_size: int | None,
) -> Study:
    """Put together what is to be evaluated, from the run's configuration where nothing else was asked for."""
    if config is None and name is None:
        raise ValueError("say what to evaluate it on: --data NAME")
    pretrained = load_pretrained(model).to(device)
    train, test, of = _samples(config, name or config.data, split)  # type: ignore[union-attr]
    chosen = policy or (config.measured_policy if config else "simclr")
    form = form_named(config.form if config else "euclidean")
    views = policy_for(chosen, pretrained.size)
    check_study(pretrained, test, views, chosen, device)
    return Study(
        model=pretrained.name,
        embed=pretrained.embed,
        train=place(train, device),
        test=place(test, device),
        policy=views,
        policy_name=chosen,
        form=form,
        device=device,
        module=pretrained.encoder,
        split=of,
        batch_size=batch_size,
    )


def _samples(config: Config | None, name: str, split: str | None) -> tuple[Samples, Samples, str]:
    """(what probes learn from, what to measure on, which split that is)."""
    if config is not None and is_cut(config, name, split):
        return *data.load(name, config.split).split(config.validation), "validation"
    return data.load(name, "train"), *heldout_samples(config, name, split)
