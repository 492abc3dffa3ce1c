"""`care steer`: the rotation of an augmentation as a function of its parameters."""

import dataclasses
import json
from pathlib import Path
from typing import Annotated

import typer

from care.cli.errors import users_input
from care.cli.options import AnyModel, BatchSize, Data, Device, Policy, Seed
from care.cli.outputs import claim_folder, save_figures
from care.cli.progress import progress_bars

MEASURED = 20  # augmentations per family, at most


def steer(
    model: AnyModel,
    name: Data = None,
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
        from care import steer as steering
        from care.atomic_files import write_atomically
        from care.cli.evaluation_setup import ModelOptions, is_run, setup_of
        from care.cli.steer_setup import (
            check_steered,
            chosen_output,
            steered_embedder,
            steering_folder,
            trained_rotation,
        )
        from care.steer.families import measured_families
        from care.train.runs import load_trained

        trained = load_trained(Path(model)) if is_run(model) else None
        views = policy or (trained.config.equivariance_policy if trained else None)
        setup = setup_of(ModelOptions(model, name, split, views, device=device, batch_size=batch_size))
        check_steered(setup, second_order)
        output = chosen_output(setup, output)
        folder = out or steering_folder(model, setup)
        claim_folder(folder)
    with progress_bars() as progress:
        assert setup.train is not None  # it was needed
        few = (samples.limit(min(images, len(samples))) for samples in (setup.train, setup.test))
        fitted, unseen = (steered_embedder(setup, samples, output) for samples in few)
        statistics = steering.statistics_of(
            fitted, output, steering.steered_families(setup.policy, augmentations), rank, seed, progress
        )
        products = steering.COLOR_PRODUCTS if second_order else ()
        rotation, predictor = (
            steering.fit_rotation(statistics, seed, progress, products),
            steering.fit_predictor(statistics, seed, progress),
        )
        steering.save(rotation, folder / "rotation.safetensors")
        families = measured_families(setup.policy, min(MEASURED, augmentations))
        found = {setup.model: rotation}
        joint = trained_rotation(trained) if trained is not None else None
        if joint is not None and output == joint.output:
            steering.save(joint, folder / "trained.safetensors")
            found[f"{setup.model}, R(θ) trained with the encoder"] = joint
        result, *others = steering.measure_rotations(unseen, output, families, found, predictor, seed, progress)
        canonicalized = steering.canonicalized_families(setup.policy)
        scores = steering.measure_canonicalization(unseen, output, rotation, canonicalized, seed, progress)
        result = dataclasses.replace(result, canonicalization=scores)
        for measured, file in zip([result, *others], ("steering.json", "trained.json"), strict=False):
            write_atomically(folder / file, json.dumps(measured.to_json(), indent=1, allow_nan=False).encode())
        save_figures({"steering": result.figure()} if result.reacts else {}, folder, progress)
    typer.echo("\n\n".join([*map(str, [result, *others]), str(folder)]))
