"""`care steer`: know the rotation of an augmentation without solving for it."""

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
from care.pretrained import only, steerable
from care.steer import (
    COLOR_PRODUCTS,
    Steering,
    fit_predictor,
    fit_steering,
    gather,
    measure_canonical,
    measure_steering,
    save,
    steered_families,
    undone_families,
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
    images: Annotated[int, typer.Option(min=20, help="So many to fit on, and so many others to measure on.")] = 1000,
    augmentations: Annotated[
        int, typer.Option(min=2, max=10_000, help="How many to fit on, per family; three times that of the policy.")
    ] = 40,
    of: Annotated[
        str | None,
        typer.Option("--of", help="Which output: head, backbone … Default: what the losses were on, all of it."),
    ] = None,
    rank: Annotated[int, typer.Option(min=2, max=512, help="In how many directions embeddings are turned.")] = 64,
    second_order: Annotated[
        bool,
        typer.Option(
            "--second-order",
            help="Let products of colors turn, too: nearer to the oracle, but brightness is then no subgroup.",
        ),
    ] = False,
    seed: Annotated[int, typer.Option(help="The same seed draws the same augmentations.")] = 0,
    batch_size: Annotated[int | None, typer.Option(min=1, help="Images at once. Default: what fits.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:1.")] = "auto",
    out: Annotated[Path | None, typer.Option(help="Where to write. Default: the folder steering in the run.")] = None,
) -> None:
    """Fit a map from augmentations to rotations of the embeddings, and measure it on what it was not fitted to.

    R(θ) = exp(Σ θ_k A_k), with a coordinate θ_k for brightness, hue, the place of a crop and so on. It is compared with
    rotations fitted to each augmentation, with a network, and with doing nothing. Then it undoes augmentations, and
    probes say what is still known of them, and of the class.

    Leaves steering.safetensors, steering.json and a figure as PNG and SVG. A steering that was trained with the run
    (care train --steering) is measured, too: trained.safetensors, trained.json.

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
        output = _output(study, of)
        folder = out or steering_folder(model, study)
        claim_folder(folder)
    with progress_bars() as watch:
        few = (samples.limit(min(images, len(samples))) for samples in (study.train, study.test))
        fitted, unseen = (steered_observer(study, samples, output) for samples in few)
        evidence = gather(fitted, output, steered_families(study.policy, augmentations), rank, seed, watch)
        products = COLOR_PRODUCTS if second_order else ()
        steering, predictor = fit_steering(evidence, seed, watch, products), fit_predictor(evidence, seed, watch)
        save(steering, folder / "steering.safetensors")
        families = measured_families(study.policy, min(MEASURED, augmentations))
        result = measure_steering(unseen, output, families, steering, predictor, study.model, seed, watch)
        undone = measure_canonical(unseen, output, steering, undone_families(study.policy), seed, watch)
        result = dataclasses.replace(result, canonical=undone)
        write_atomically(folder / "steering.json", json.dumps(result.to_json(), indent=1, allow_nan=False).encode())
        save_figures({"steering": result.figure()} if result.reacts else {}, folder, watch)
        results = [str(result)]
        if trained is not None and output == "head" and (joint := steering_trained_with(trained)) is not None:
            save(joint, folder / "trained.safetensors")
            title = f"{study.model}, as trained"
            found = measure_steering(unseen, output, families, joint, predictor, title, seed, watch)
            write_atomically(folder / "trained.json", json.dumps(found.to_json(), indent=1, allow_nan=False).encode())
            results.append(str(found))
    typer.echo("\n\n".join([*results, str(folder)]))


def _check(study: Study) -> None:
    if study.split == "train":
        raise ValueError("a steering is fitted on train and measured on other images: choose another --split")
    if not isinstance(study.form, Euclidean):
        raise ValueError("only embeddings on the sphere can be steered: the run was trained with another form")


def steering_trained_with(trained: Trained) -> Steering | None:
    """The steering that was trained with the encoder, if one was: of the first coordinates of the head's output."""
    if trained.generators is None:
        return None
    policy = policy_for(trained.config.equivariance_policy, trained.config.size)
    names = POINT_NAMES if isinstance(policy, PointPolicy) else IMAGE_NAMES
    basis = torch.eye(trained.config.embedding_dim, trained.generators.shape[1])
    return Steering(names, getattr(policy, "center", 1.0), basis, trained.generators)


def steering_folder(model: str, study: Study) -> Path:
    """Where the steering of a model is unless something else is asked for: in its run, or beside what is no run."""
    return Path(model) / "steering" if Path(model).is_dir() else Path(f"steering-{study.model}")


def _output(study: Study, of: str | None) -> str:
    choices = steerable_outputs(study)
    if of is not None and of not in choices:
        raise ValueError(f"--of must be one of {', '.join(choices)}, got {of}")
    return of or choices[0]


def steerable_outputs(study: Study) -> tuple[str, ...]:
    """What of the model can be steered, first what is meant if nobody chooses."""
    few = study.test.limit(2)
    views = apply(few.inputs.cpu(), study.policy.unchanged(2, few.source))  # type: ignore[arg-type]
    return steerable(study.embed(views.to(study.device)))


def steered_observer(study: Study, samples: Samples, output: str) -> Observer:
    """The model looking at `samples`, in the one place that is steered."""
    return Observer(
        only(study.embed, output),
        samples,
        study.policy,
        study.policy_name,
        study.device,
        study.batch_size,
    )
