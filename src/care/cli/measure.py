"""`care measure`: how do augmentations act on the embeddings of any model?"""

import json
import re
from pathlib import Path
from typing import Annotated

import torch
import typer

from care.atomic_files import write_atomically
from care.augment import PRESETS
from care.cli.mistakes import users_input
from care.cli.saving import claim_folder, save_figures
from care.cli.studies import check_study, config_of, heldout_samples
from care.cli.watching import watching
from care.data import place
from care.evaluate import Observer, measure_observed
from care.geometry import form_named
from care.methods import policy_for
from care.pretrained import load_pretrained
from care.train.distributed import resolve_device


def measure(
    model: Annotated[
        str, typer.Argument(help="timm/NAME, a run folder, or a .safetensors, .pt (TorchScript) or .onnx file.")
    ],
    name: Annotated[
        str | None,
        typer.Option(
            "--data", help="See [bold]care data list[/bold]. Default: what a run was trained on, else shapes."
        ),
    ] = None,
    split: Annotated[str | None, typer.Option(help="Default: what a run held out, test, or val.")] = None,
    policy: Annotated[
        str | None,
        typer.Option(help=f"One of {', '.join(PRESETS)}. Default: a run's, else simclr."),
    ] = None,
    size: Annotated[
        int | None, typer.Option(min=8, max=4096, help="Side of a view in pixels. Default: what the model wants.")
    ] = None,
    images: Annotated[int, typer.Option(min=20, help="The first so many images of the split.")] = 2000,
    augmentations: Annotated[
        int, typer.Option(min=1, max=100_000, help="How many augmentations to draw, per family.")
    ] = 20,
    families: Annotated[bool, typer.Option(help="Also each family of augmentations alone.")] = True,
    mean: Annotated[str | None, typer.Option(help="What a .pt or .onnx model subtracts: 0.485,0.456,0.406")] = None,
    std: Annotated[str | None, typer.Option(help="What it divides by: 0.229,0.224,0.225")] = None,
    seed: Annotated[int, typer.Option(help="The same seed draws the same augmentations.")] = 0,
    batch_size: Annotated[int | None, typer.Option(min=1, help="Images at once. Default: what fits.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:1.")] = "auto",
    out: Annotated[Path | None, typer.Option(help="Where to write. Default: measure-MODEL.")] = None,
) -> None:
    """Measure whether augmentations rotate a model's embeddings, move them otherwise, or leave them alone.

    Every augmentation is drawn once and applied to all images. Then the best rotation between the embeddings before and
    after is fitted on one half of the images and tested on the other: a held-out ratio of 0 is exactly a rotation, 1 is
    no better than no rotation at all.

    Examples: [bold]care measure timm/resnet50.a1_in1k --data flowers102[/bold], [bold]care measure runs/mine[/bold]
    """
    with users_input():
        where = torch.device(resolve_device(device))
        subject = load_pretrained(model, mean=_numbers(mean), std=_numbers(std)).to(where)
        config = config_of(model)
        samples, _ = heldout_samples(config, name or (config.data if config else "shapes"), split)
        samples = place(samples.limit(min(images, len(samples))), where)
        policy = policy or (config.measured_policy if config else "simclr")
        views = policy_for(policy, size or subject.size)
        check_study(subject, samples, views, policy, where)
        forms = {"embedding": form_named(config.form)} if config else {}
        observer = Observer(subject.embed, samples, views, policy, where, batch_size, forms)
        folder = out or Path("measure-" + _word(model, subject.name))
        claim_folder(folder)
    with watching() as watch:
        found = measure_observed(observer, augmentations, families, seed=seed, watch=watch)
        record = {output: measured.to_json() for output, measured in found.items()}
        write_atomically(folder / "measurement.json", json.dumps(record, indent=1, allow_nan=False).encode())
        save_figures({f"responses-{output}": measured.figure() for output, measured in found.items()}, folder, watch)
    typer.echo("\n\n".join(measured.table() for measured in found.values()) + f"\n\n{folder}")


def _word(model: str, name: str) -> str:
    """The model in a word for a folder's name; files, which are often called alike, with the folder that holds them."""
    file = Path(model)
    words = f"{file.resolve().parent.name} {file.name}" if file.is_file() else name
    return re.sub(r"\W+", "-", words).strip("-")


def _numbers(text: str | None) -> tuple[float, ...] | None:
    if text is None:
        return None
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError as error:
        raise ValueError(f"expected three numbers such as 0.485,0.456,0.406, got {text!r}") from error
