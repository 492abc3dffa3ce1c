"""`care steer`: the rotation of an augmentation as a function of its parameters."""

import dataclasses
import json
from pathlib import Path
from typing import Annotated

import torch
import typer

from care.atomic_files import write_atomically
from care.augment import PRESETS, PointPolicy, apply
from care.augment.coordinates import IMAGE_NAMES, POINT_NAMES
from care.cli.evaluate import study_of
from care.cli.mistakes import users_input
from care.cli.progress import progress_bars
from care.cli.saving import claim_folder, save_figures
from care.data import Samples
from care.evaluate import Observer, Study
from care.geometry import Euclidean
from care.objective import policy_for
from care.steer import (
    COLOR_PRODUCTS,
    LearnedRotation,
    canonicalized_families,
    fit_predictor,
    fit_rotation,
    gather,
    measure_canonicalization,
    measure_rotation,
    save,
    steered_families,
)
from care.steer.families import measured_families
from care.train.distributed import resolve_device
from care.train.runs import Trained, load_trained

MEASURED = 20  # augmentations per family, at most


def steer(
    model: Annotated[str, typer.Argument(help="A run folder, or any model that [bold]care measure[/bold] takes.")],
    name: Annotated[
        str | None, typer.Option("--data", help="A data set. Default: what the run was trained on.")
    ] = None,
    split: Annotated[str | None, typer.Option(help="What to measure on. Default: what the run held out.")] = None,
    policy: Annotated[str | None, typer.Option(help=f"One of {', '.join(PRESETS)}. Default: the run's.")] = None,
    images: Annotated[int, typer.Option(min=20, help="How many to fit on, and how many others to measure on.")] = 1000,
    augmentations: Annotated[
        int, typer.Option(min=2, max=10_000, help="How many to fit on, per family; three times as many of the policy.")
    ] = 40,
    output: Annotated[
        str | None,
        typer.Option(help="embedding, backbone, of a split embedding also invariant, equivariant. Default: embedding."),
    ] = None,
    rank: Annotated[int, typer.Option(min=2, max=512, help="The dimension of the subspace that is rotated.")] = 64,
    second_order: Annotated[
        bool,
        typer.Option(
            "--second-order",
            help="Add products of color coordinates to the exponent: closer to Procrustes, but brightness is then no "
            "one-parameter subgroup.",
        ),
    ] = False,
    seed: Annotated[int, typer.Option(help="The same seed draws the same augmentations.")] = 0,
    batch_size: Annotated[int | None, typer.Option(min=1, help="Images at once. Default: what fits.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:1.")] = "auto",
    out: Annotated[Path | None, typer.Option(help="Where to write. Default: the folder steering in the run.")] = None,
) -> None:
    """Fit a rotation R(θ) of the embeddings as a function of the augmentation, and measure it on held-out images.

    R(θ) = exp(Σ θ_k A_k), with a coordinate θ_k for brightness, hue, the center of a crop and so on. It is compared
    with per-augmentation Procrustes, with a network (EquiMod) and with the identity, on augmentations that it was not
    fitted to. Then embeddings are canonicalized by R(θ)ᵀ, and probes decode the augmentation and the class from them.

    Leaves rotation.safetensors, steering.json and a figure as PNG and SVG. A rotation that was trained with the encoder
    (care train --equivariance steering) is measured, too: trained.safetensors, trained.json.

    Example: [bold]care steer runs/mine[/bold]
    """
    with users_input():
        trained = load_trained(Path(model)) if Path(model).is_dir() else None
        study = study_of(
            model,
            trained.config if trained else None,
            name,
            split,
            policy or (trained.config.equivariance_policy if trained else None),
            torch.device(resolve_device(device)),
            batch_size,
        )
        _check(study)
        if second_order and isinstance(study.policy, PointPolicy):
            raise ValueError("--second-order is for colors, and point clouds have none")
        output = _output(study, output)
        folder = out or steering_folder(model, study)
        claim_folder(folder)
    with progress_bars() as watch:
        few = (samples.limit(min(images, len(samples))) for samples in (study.train, study.test))
        fitted, unseen = (steered_observer(study, samples, output) for samples in few)
        evidence = gather(fitted, output, steered_families(study.policy, augmentations), rank, seed, watch)
        products = COLOR_PRODUCTS if second_order else ()
        rotation, predictor = fit_rotation(evidence, seed, watch, products), fit_predictor(evidence, seed, watch)
        save(rotation, folder / "rotation.safetensors")
        families = measured_families(study.policy, min(MEASURED, augmentations))
        result = measure_rotation(unseen, output, families, rotation, predictor, study.model, seed, watch)
        canonicalized = canonicalized_families(study.policy)
        scores = measure_canonicalization(unseen, output, rotation, canonicalized, seed, watch)
        result = dataclasses.replace(result, canonicalization=scores)
        write_atomically(folder / "steering.json", json.dumps(result.to_json(), indent=1, allow_nan=False).encode())
        save_figures({"steering": result.figure()} if result.reacts else {}, folder, watch)
        results = [str(result)]
        if trained is not None and (joint := trained_rotation(trained)) is not None and output == joint.output:
            save(joint, folder / "trained.safetensors")
            title = f"{study.model}, R(θ) trained with the encoder"
            found = measure_rotation(unseen, output, families, joint, predictor, title, seed, watch)
            write_atomically(folder / "trained.json", json.dumps(found.to_json(), indent=1, allow_nan=False).encode())
            results.append(str(found))
    typer.echo("\n\n".join([*results, str(folder)]))


def _check(study: Study) -> None:
    if study.split == "train":
        raise ValueError("R(θ) is fitted on train and measured on other images: choose another --split")
    if not isinstance(study.form, Euclidean):
        raise ValueError("only embeddings on the sphere can be steered: the run was trained with another form")


def trained_rotation(trained: Trained) -> LearnedRotation | None:
    """The rotation that was trained with the encoder, if one was: it acts on the first dimensions of the embedding."""
    if trained.generators is None:
        return None
    policy = policy_for(trained.config.equivariance_policy, trained.config.size)
    names = POINT_NAMES if isinstance(policy, PointPolicy) else IMAGE_NAMES
    basis = torch.eye(trained.config.embedding_dim, trained.generators.shape[1])
    return LearnedRotation(names, getattr(policy, "center", 1.0), basis, trained.generators)


def steering_folder(model: str, study: Study) -> Path:
    """The default folder for the results: in the folder of a run, in the working directory for other models."""
    return Path(model) / "steering" if Path(model).is_dir() else Path(f"steering-{study.model}")


def _output(study: Study, output: str | None) -> str:
    choices = outputs_of(study)
    if output is not None and output not in choices:
        raise ValueError(f"--output must be one of {', '.join(choices)}, got {output}")
    return output or choices[0]


def outputs_of(study: Study) -> tuple[str, ...]:
    """The names of the model's outputs, the default first."""
    few = study.test.limit(2)
    views = apply(few.inputs.cpu(), study.policy.unchanged(2, few.source))  # type: ignore[arg-type]
    return tuple(study.embed(views.to(study.device)))


def steered_observer(study: Study, samples: Samples, output: str) -> Observer:
    """Embeds `samples` by one output of the study's model."""
    return Observer(
        lambda inputs: {output: study.embed(inputs)[output]},
        samples,
        study.policy,
        study.policy_name,
        study.device,
        study.batch_size,
    )
