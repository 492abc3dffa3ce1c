"""Options that several commands share, and how their texts are read."""

from typing import Annotated

import typer

from care.cli.static_settings import keys

PRESETS = ", ".join(keys("care.augment.presets", "PRESETS")) + ", or one with changes, as simclr:gray=0.1,scale=0.2-1"

AnyModel = Annotated[str, typer.Argument(help="A run folder, or any model that [bold]care measure[/bold] takes.")]
Data = Annotated[str | None, typer.Option("--data", help="A data set. Default: what the run was trained on.")]
Policy = Annotated[str | None, typer.Option(help=f"One of {PRESETS}. Default: the run's.")]
Size = Annotated[
    int | None, typer.Option(min=8, max=4096, help="Side of a view in pixels. Default: the model's input size.")
]
Mean = Annotated[
    str | None,
    typer.Option(help="Channel means that a model from elsewhere subtracts, as 0.485,0.456,0.406, or one number."),
]
Std = Annotated[str | None, typer.Option(help="Deviations that it divides by, as 0.229,0.224,0.225, or one number.")]
Layer = Annotated[
    str | None,
    typer.Option(help="Also measure this layer of the backbone (layer3, stages.2, blocks.6), as output intermediate."),
]
Seed = Annotated[int, typer.Option(help="The same seed draws the same augmentations.")]
BatchSize = Annotated[int | None, typer.Option(min=1, help="Images per batch. Default: as many as fit.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:1.")]


def channels(option: str, text: str | None) -> tuple[float, ...] | None:
    """Three numbers, one per channel, of the text of an option; one number stands for all three."""
    if text is None:
        return None
    try:
        numbers = tuple(float(part) for part in text.split(","))
    except ValueError:
        numbers = ()
    if len(numbers) not in (1, 3):
        raise ValueError(f"{option}: expected three numbers such as 0.485,0.456,0.406, or one for all, got {text!r}")
    return numbers if len(numbers) == 3 else 3 * numbers
