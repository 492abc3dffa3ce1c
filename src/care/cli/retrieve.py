"""`care retrieve`: neighbors of an image under an augmentation, from the embedding of the clean image."""

import dataclasses
import json
from pathlib import Path
from typing import Annotated

import torch
import typer
from matplotlib.figure import Figure

from care.atomic_files import write_atomically
from care.augment import CHANGES, PRESETS, ImageParameters, ImagePolicy, apply, read_changes
from care.cli.evaluate import study_of
from care.cli.mistakes import users_input
from care.cli.progress import progress_bars
from care.cli.saving import claim_folder, save_figures
from care.cli.steer import outputs_of, steered_observer, steering_folder
from care.data import Samples
from care.data.readers.pictures import Pictures
from care.data.readers.source import Unreadable
from care.evaluate import Observer, Study
from care.report import Asked, steered_gallery
from care.steer import LearnedRotation, RetrievalResult, augmentation_of, bank_of, load, notes_on, query_bank, some_rows
from care.steer.retrieving import AUGMENTED, WAYS
from care.train.distributed import resolve_device
from care.train.runs import load_trained


def retrieve(
    model: Annotated[str, typer.Argument(help="A run folder, or any model that [bold]care steer[/bold] was run on.")],
    make: Annotated[str, typer.Option(help=f"Changes like hue=+0.1,brightness=1.3, of {', '.join(CHANGES)}.")],
    query: Annotated[str, typer.Option(help="A picture file, or the number of an image of the split.")] = "0",
    queries: Annotated[int, typer.Option(min=2, help="How many images of the split the means are over.")] = 500,
    k: Annotated[int, typer.Option("--k", min=1, max=50, help="How many neighbors.")] = 5,
    name: Annotated[
        str | None, typer.Option("--data", help="The data set to search. Default: what the run was trained on.")
    ] = None,
    split: Annotated[str | None, typer.Option(help="Default: what the run held out, test, val or validation.")] = None,
    policy: Annotated[str | None, typer.Option(help=f"One of {', '.join(PRESETS)}. Default: the run's.")] = None,
    rotation_file: Annotated[
        Path | None, typer.Option("--rotation", help="Default: steering/rotation.safetensors in the run.")
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed draws the same queries.")] = 0,
    batch_size: Annotated[int | None, typer.Option(min=1, help="Images at once. Default: what fits.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:1.")] = "auto",
    out: Annotated[Path | None, typer.Option(help="Where to write. Default: the folder retrieval in the run.")] = None,
) -> None:
    """Find the nearest neighbors of an augmented image without augmenting it: those of R(θ) f(q).

    R(θ) is the rotation that [bold]care steer[/bold] fitted. Its neighbors are compared with those of f(q) and of
    f(a(q)), the embedding of the augmented picture: as pictures for one query, in numbers for it and the mean of many.

    Leaves retrieval.json and a figure as PNG and SVG.

    Example: [bold]care retrieve runs/mine --query 17 --make hue=+0.1[/bold]
    """
    with users_input():
        changes = read_changes(make)
        config = load_trained(Path(model)).config if Path(model).is_dir() else None
        views_of = policy or (config.equivariance_policy if config else None)
        study = study_of(model, config, name, split, views_of, torch.device(resolve_device(device)), batch_size)
        views = _image_policy(study)
        rotation = _rotation(rotation_file or steering_folder(model, study) / "rotation.safetensors", study, model)
        output, observer = rotation.output, steered_observer(study, study.test, rotation.output)
        a = augmentation_of(observer, changes)
        alone, number = _query(observer, query)
        if k >= len(study.test):
            raise ValueError(f"--k must be less than the {len(study.test)} images that there are to find, got {k}")
        folder = out or (Path(model) / "retrieval" if config else Path(f"retrieval-{study.model}"))
        claim_folder(folder)
    with progress_bars() as watch:
        bank = bank_of(observer, output)
        watch("images embedded", 1, 1)
        rows = some_rows(bank, queries, seed)
        many = query_bank(bank, rows, _taking(observer, rows), output, rotation, a, k)
        searched = bank if number is not None else bank.followed_by(bank_of(alone, output))
        row, a_one = torch.tensor([len(bank.F) if number is None else number]), augmentation_of(alone, changes)
        one = query_bank(searched, row, alone, output, rotation, a_one, k)
        about = (study.model, output, a.describe(0), query, len(study.test), k, len(rows))
        result = RetrievalResult(*about, one, many, notes_on(rotation, views, a, study.split))
        write_atomically(folder / "retrieval.json", json.dumps(result.to_json(), indent=1, allow_nan=False).encode())
        save_figures({"retrieval": _figure(result, study.test, alone.samples, views, a_one)}, folder, watch)
    typer.echo(f"{result}\n\n{folder}")


def _image_policy(study: Study) -> ImagePolicy:
    if not isinstance(study.policy, ImagePolicy):
        raise ValueError("care retrieve is for images: point clouds have neither a hue nor a picture to show")
    return study.policy


def _rotation(file: Path, study: Study, model: str) -> LearnedRotation:
    """The learned rotation in the file; ValueError if there is none, or one of other embeddings or views."""
    if not file.is_file():
        raise ValueError(f"{file} does not exist: run care steer {model} first")
    rotation, policy = load(file), study.policy
    if rotation.output not in outputs_of(study):
        raise ValueError(
            f"{file} rotates the output {rotation.output}, which {model} does not have: run care steer {model} again"
        )
    d = steered_observer(study, study.test.limit(2), rotation.output).clean()[rotation.output].shape[1]
    if len(rotation.basis) != d:
        raise ValueError(
            f"{file} rotates embeddings of {len(rotation.basis)} dimensions, and those of {model} have {d}: "
            f"run care steer {model} again"
        )
    if isinstance(policy, ImagePolicy) and rotation.center != policy.center:
        raise ValueError(
            f"{file} was fitted to views of {rotation.center:g} of the picture, and those of {study.policy_name} "
            f"are {policy.center:g} of it: choose the same --policy for both"
        )
    return rotation


def _query(observer: Observer, query: str) -> tuple[Observer, int | None]:
    """The query alone, and its number in the split, None for a file."""
    if query.isdecimal():
        if int(query) >= len(observer.samples):
            raise ValueError(f"there is no image {query}: the {len(observer.samples)} of the split are counted from 0")
        return _taking(observer, torch.tensor([int(query)])), int(query)
    if not Path(query).is_file():
        raise ValueError(f"--query must be a picture file, or the number of an image of the split, got {query}")
    read = next(iter(Pictures([(Path(query), -1)], min(observer.samples.source), workers=1)))
    if isinstance(read, Unreadable):
        raise ValueError(f"{read.file} {read.reason}")
    pixels = torch.from_numpy(read.image)[None]
    alone = Samples(pixels, torch.tensor([-1]), observer.samples.classes, name=query)
    return dataclasses.replace(observer, samples=alone), None


def _taking(observer: Observer, rows: torch.Tensor) -> Observer:
    return dataclasses.replace(observer, samples=observer.samples.take(rows))


def _figure(result: RetrievalResult, bank: Samples, query: Samples, policy: ImagePolicy, a: ImageParameters) -> Figure:
    """A row each for f(q), R(θ) f(q) (with the clean picture, too) and f(a(q)): the query and its neighbors."""
    unchanged, truth = policy.unchanged(1, query.source), result.one.found[AUGMENTED][0].cpu()  # type: ignore[arg-type]
    ways = []
    for way in WAYS:
        rows = result.one.found[way][0].cpu()
        near = bank.take(rows)
        picture = apply(query.inputs.cpu(), a if way == AUGMENTED else unchanged)[0]
        found = apply(near.inputs.cpu(), policy.unchanged(len(rows), bank.source))  # type: ignore[arg-type]
        framed = (rows[:, None] == truth).any(1) & (way != AUGMENTED)
        ways.append(Asked(result.caption(way), picture, _classes(query)[0] or "query", found, _classes(near), framed))
    return steered_gallery(ways, f"{result.model}: {result.change} (green: also a neighbor of f(a(q)))")


def _classes(samples: Samples) -> list[str]:
    return [samples.classes[label] if label >= 0 else "" for label in samples.labels.tolist()]
