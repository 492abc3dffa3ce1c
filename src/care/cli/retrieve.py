"""`care retrieve`: neighbors of an image under an augmentation, from the embedding of the clean image."""

import json
from pathlib import Path
from typing import Annotated

import typer

from care.cli.errors import users_input
from care.cli.options import BatchSize, Device, Policy
from care.cli.outputs import claim_folder, save_figures
from care.cli.progress import progress_bars
from care.cli.static_settings import keys

CHANGES = ", ".join(keys("care.augment.changes", "CHANGES"))


def retrieve(
    model: Annotated[str, typer.Argument(help="A run folder, or any model that [bold]care steer[/bold] was run on.")],
    make: Annotated[str, typer.Option(help=f"Changes such as hue=+0.1,brightness=1.3. There are {CHANGES}.")],
    query: Annotated[str, typer.Option(help="A picture file, or the number of an image of the split.")] = "0",
    queries: Annotated[int, typer.Option(min=2, help="How many queries of the split to average over.")] = 500,
    k: Annotated[int, typer.Option("--k", min=1, max=50, help="How many neighbors.")] = 5,
    data: Annotated[
        str | None, typer.Option("--data", help="The data set to search. Default: what the run was trained on.")
    ] = None,
    split: Annotated[str | None, typer.Option(help="Default: the run's validation samples, else test or val.")] = None,
    policy: Policy = None,
    rotation_file: Annotated[
        Path | None, typer.Option("--rotation", help="Default: steering/rotation.safetensors in the run.")
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed draws the same queries.")] = 0,
    batch_size: BatchSize = None,
    device: Device = "auto",
    out: Annotated[Path | None, typer.Option(help="Where to write. Default: the folder retrieval in the run.")] = None,
) -> None:
    """Find the nearest neighbors of an augmented image without augmenting it: rotate f(q) by R(θ).

    R(θ) is the rotation that [bold]care steer[/bold] fitted. The neighbors of R(θ) f(q) are compared with those of f(q)
    and of f(a(q)), the embedding of the augmented picture: in a figure for one query, and in numbers for this query and
    the mean of many.

    Writes retrieval.json and a figure as PNG and SVG.

    Example: [bold]care retrieve runs/mine --query 17 --make hue=+0.1[/bold]
    """
    with users_input():
        if not query.isdecimal() and not Path(query).is_file():
            there = "is a folder" if Path(query).is_dir() else "is not there"
            raise ValueError(f"{query} {there}: --query is a picture file, or the number of an image of the split")
        from care.atomic_files import write_atomically
        from care.augment import read_changes
        from care.cli.evaluation_setup import ModelOptions, config_of, setup_of
        from care.cli.retrieve_setup import image_policy, query_of, retrieval_figure, rotation_of
        from care.cli.steer_setup import steered_embedder, steering_folder
        from care.steer import augmentation_of
        from care.steer import retrieve as retrieve_steered

        changes = read_changes(make)
        steered = Path(model) / "steering" / "rotation.safetensors"
        if rotation_file is None and (Path(model) / "model.safetensors").is_file() and not steered.is_file():
            raise ValueError(f"{steered} does not exist: run care steer {model} first")
        config = config_of(model)
        views_of = policy or (config.equivariance_policy if config else None)
        setup = setup_of(
            ModelOptions(model, data, split, views_of, device=device, batch_size=batch_size), train="unused"
        )
        views = image_policy(setup)
        rotation = rotation_of(rotation_file or steering_folder(model, setup) / "rotation.safetensors", setup, model)
        embedder = steered_embedder(setup, setup.test, rotation.output)
        asked = query_of(embedder, query)
        _, a = (augmentation_of(searched, changes) for searched in (embedder, asked.embedder))
        if k >= len(setup.test):
            raise ValueError(f"--k must be less than the {len(setup.test)} images that there are to find, got {k}")
        folder = out or (Path(model) / "retrieval" if config else Path(f"retrieval-{setup.model}"))
        claim_folder(folder)
    with progress_bars() as progress:
        result = retrieve_steered(
            embedder,
            asked,
            rotation,
            changes,
            title=setup.model,
            split=setup.split,
            k=k,
            queries=queries,
            seed=seed,
            progress=progress,
        )
        write_atomically(folder / "retrieval.json", json.dumps(result.to_json(), indent=1, allow_nan=False).encode())
        figure = retrieval_figure(result, setup.test, asked.embedder.samples, views, a)
        save_figures({"retrieval": figure}, folder, progress)
    typer.echo(f"{result}\n\n{folder}")
