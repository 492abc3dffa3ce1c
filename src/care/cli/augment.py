"""`care augment`: draw pictures under the augmentations of a policy."""

from pathlib import Path
from typing import Annotated

import typer

from care.cli.errors import users_input
from care.cli.options import PRESETS
from care.cli.outputs import claim_file
from care.tables import wrapped


def augment(
    images: Annotated[list[Path], typer.Argument(exists=True, help="Pictures, or folders of pictures.")],
    policy: Annotated[
        str | None,
        typer.Option(help=f"One of {PRESETS}. Default: that of care train, mocov2, or small_images up to 64 px."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Where to write the picture (.png, .svg or .pdf).")] = Path("grid.png"),
    columns: Annotated[int, typer.Option(min=1, max=40, help="How many augmentations to draw.")] = 8,
    pixels: Annotated[
        int | None,
        typer.Option(
            min=8,
            max=4096,
            help="Side of the squares the pictures are cut to beforehand. Default: their own, up to 256.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="The same seed draws the same augmentations.")] = 0,
) -> None:
    """Draw augmentations and show pictures under each of them.

    Rows are pictures, at most 16, and columns are augmentations: all pictures of a column have the same one.

    Example: [bold]care augment photos/ --policy simclr --out grid.png[/bold]
    """
    with users_input():
        if out.suffix not in (".png", ".svg", ".pdf"):
            raise ValueError(f"--out must end in .png, .svg or .pdf, got {out.name}")
        import torch

        from care.data.readers import read_few
        from care.report import gallery
        from care.train.fitted import fitted_policy

        claim_file(out)
        pictures, given = read_few(images, pixels, lambda sentence: typer.echo(wrapped(sentence), err=True))
        chosen = fitted_policy(policy, side := pictures.shape[-1])
    augmentations = chosen.sample(columns, (side, side), torch.Generator().manual_seed(seed))
    figure = gallery(pictures, augmentations, given)
    with users_input():
        figure.savefig(out, dpi=120)
    typer.echo("\n".join([*map(wrapped, str(augmentations).splitlines()), str(out)]))
