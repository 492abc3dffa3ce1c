"""`care steer`: the rotation of an augmentation as a function of its parameters."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from care.cli.errors import users_input
from care.cli.options import AnyModel, BatchSize, Data, Device, Policy, Seed
from care.cli.outputs import claim_folder, save_figures
from care.cli.progress import progress_bars

if TYPE_CHECKING:
    from care.steer import LearnedRotation
    from care.steer.result import RotationResult


def steer(
    model: AnyModel,
    data: Data = None,
    split: Annotated[str | None, typer.Option(help="What to measure on. Default: the run's held-out split.")] = None,
    policy: Policy = None,
    images: Annotated[int, typer.Option(min=20, help="Images to fit on, and as many others to measure on.")] = 1000,
    augmentations: Annotated[
        int, typer.Option(min=2, max=10_000, help="How many to fit on per family; three times as many of the policy.")
    ] = 40,
    output: Annotated[
        str | None,
        typer.Option(help="embedding or backbone; if split, also invariant or equivariant. Default: embedding."),
    ] = None,
    rank: Annotated[int, typer.Option(min=2, max=512, help="The dimension of the subspace that is rotated.")] = 64,
    second_order: Annotated[
        bool,
        typer.Option(
            "--second-order",
            help="Add products of color coordinates to the exponent: closer to Procrustes, but then brightness is not "
            "a one-parameter subgroup.",
        ),
    ] = False,
    seed: Seed = 0,
    batch_size: BatchSize = None,
    device: Device = "auto",
    out: Annotated[Path | None, typer.Option(help="Where to write. Default: the folder steering in the run.")] = None,
) -> None:
    """Fit a rotation R(θ) of the embeddings as a function of the augmentation, and measure it on held-out images.

    R(θ) = exp(Σ θ_k A_k), with a coordinate θ_k for brightness, hue, the center of a crop and so on. It is compared
    with per-augmentation Procrustes, with a network (EquiMod) and with the identity, on held-out augmentations. Then
    embeddings are canonicalized by R(θ)ᵀ, and probes decode the augmentation and the class from them.

    Writes rotation.safetensors, steering.json and a figure as PNG and SVG. A rotation that was trained with the encoder
    (care train --equivariance steering) is measured, too: trained.safetensors, trained.json.

    Example: [bold]care steer runs/mine[/bold]
    """
    with users_input():
        from care.cli.evaluation_setup import ModelOptions, is_run, setup_of
        from care.cli.steer_setup import (
            check_steered,
            chosen_output,
            steered_embedder,
            steering_folder,
            trained_rotation,
        )
        from care.steer import COLOR_PRODUCTS, steer_embeddings
        from care.train.trained import load_trained

        run = load_trained(Path(model)) if is_run(model) else None
        views = policy or (run.config.equivariance_policy if run else None)
        setup = setup_of(ModelOptions(model, data, split, views, device=device, batch_size=batch_size))
        check_steered(setup, second_order)
        output = chosen_output(setup, output)
        folder = out or steering_folder(model, setup)
        claim_folder(folder)
    with progress_bars() as progress:
        assert setup.train is not None  # it was needed
        few = (samples.limit(min(images, len(samples))) for samples in (setup.train, setup.test))
        fitted, unseen = (steered_embedder(setup, samples, output) for samples in few)
        trained = trained_rotation(run, output) if run is not None else None
        steered = steer_embeddings(
            fitted,
            unseen,
            output,
            setup.model,
            augmentations=augmentations,
            rank=rank,
            products=COLOR_PRODUCTS if second_order else (),
            trained=trained,
            seed=seed,
            progress=progress,
        )
        _write(steered.rotation, folder / "rotation.safetensors", steered.result, folder / "steering.json")
        if trained is not None and steered.trained is not None:
            _write(trained, folder / "trained.safetensors", steered.trained, folder / "trained.json")
        save_figures({"steering": steered.result.figure()} if steered.result.reacts else {}, folder, progress)
    typer.echo(f"{steered}\n\n{folder}")


def _write(rotation: "LearnedRotation", file: Path, result: "RotationResult", measures: Path) -> None:
    from care.atomic_files import write_atomically
    from care.steer import save

    save(rotation, file)
    write_atomically(measures, json.dumps(result.to_json(), indent=1, allow_nan=False).encode())
