"""`care measure`: how do augmentations act on the embeddings of any model?"""

import json
import re
from pathlib import Path
from typing import Annotated

import typer

from care.cli.errors import users_input
from care.cli.options import PRESETS, BatchSize, Device, Layer, Mean, Seed, Size, Std, channels
from care.cli.outputs import claim_folder, save_figures
from care.cli.progress import progress_bars


def measure(
    model: Annotated[
        str, typer.Argument(help="timm/NAME, a run folder, or a .safetensors, .pt (TorchScript) or .onnx file.")
    ],
    data: Annotated[
        str | None,
        typer.Option("--data", help="See [bold]care data list[/bold]. Default: the run's training data, else shapes."),
    ] = None,
    split: Annotated[str | None, typer.Option(help="Default: the run's validation samples, else test or val.")] = None,
    policy: Annotated[str | None, typer.Option(help=f"One of {PRESETS}. Default: the run's, else simclr.")] = None,
    size: Size = None,
    images: Annotated[int, typer.Option(min=20, help="Use only the first N images of the split.")] = 2000,
    augmentations: Annotated[
        int, typer.Option(min=1, max=100_000, help="How many augmentations to draw, per family.")
    ] = 20,
    rank: Annotated[
        int | None,
        typer.Option(
            min=1, help="Fit rotations in this many leading directions. Default: all, at most a quarter of the images."
        ),
    ] = None,
    families: Annotated[bool, typer.Option(help="Also measure each family of augmentations alone.")] = True,
    decode: Annotated[
        bool, typer.Option(help="Also decode the parameters of augmentations (hue, crop, blur), and report R².")
    ] = True,
    layer: Layer = None,
    mean: Mean = None,
    std: Std = None,
    seed: Seed = 0,
    batch_size: BatchSize = None,
    device: Device = "auto",
    out: Annotated[Path | None, typer.Option(help="Where to write. Default: measure-MODEL.")] = None,
) -> None:
    """Measure whether augmentations rotate a model's embeddings, change them otherwise, or leave them invariant.

    Each augmentation is drawn once and applied to all images. The held-out ratio estimates how much of its effect on
    new images the best rotation leaves unexplained: 0 is exactly a rotation, 1 is no better than no rotation.
    With fewer than four images per dimension, rotations are fitted only in as many leading directions as that allows.
    R² says how well the pair (f(x), f(a(x))) determines a: 1 exactly, 0 not at all.

    Examples:
    [bold]care measure timm/resnet50.a1_in1k --data flowers102[/bold]
    [bold]care measure runs/mine[/bold]
    """
    with users_input():
        normalization = channels("--mean", mean), channels("--std", std)
        from care.atomic_files import write_atomically
        from care.cli.evaluation_setup import ModelOptions, embedder_of
        from care.evaluate import measure_model

        options = ModelOptions(model, data, split, policy, size, normalization, device, batch_size, layer)
        embedder, title = embedder_of(options, images)
        folder = out or Path("measure-" + _word(model, title))
        file = folder / "measurement.json"
        replaced = ": the earlier measurement there was replaced" * file.exists()
        claim_folder(folder)
    with progress_bars() as progress:
        found = measure_model(embedder, augmentations, families, seed, progress, rank, decode)
        record = {output: measured.to_json() for output, measured in found.items()}
        write_atomically(file, json.dumps(record, indent=1, allow_nan=False).encode())
        save_figures({f"responses-{output}": measured.figure() for output, measured in found.items()}, folder, progress)
    typer.echo("\n\n".join(measured.table() for measured in found.values()) + f"\n\n{folder}{replaced}")


def _word(model: str, name: str) -> str:
    """The model as a word for a folder's name; a file comes with its parent folder, since file names often repeat."""
    file = Path(model)
    words = f"{file.resolve().parent.name} {file.name}" if file.is_file() else name
    return re.sub(r"\W+", "-", words).strip("-")
