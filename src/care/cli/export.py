"""`care export`: write the encoder of a run for another program."""

from pathlib import Path
from typing import Annotated

import typer

from care.cli.errors import users_input
from care.cli.outputs import claim_file
from care.cli.static_settings import constant

FILES: dict[str, str] = constant("care.export.formats", "FILES")


def export(
    run: Annotated[Path, typer.Argument(help="The folder of a finished run.")],
    to: Annotated[str, typer.Option(help=f"One of {', '.join(FILES)}.")],
    out: Annotated[
        Path | None,
        typer.Option(
            help="The file (timm: .safetensors, onnx: .onnx, torchscript: .pt) or folder to write. "
            "Default: in the run folder."
        ),
    ] = None,
) -> None:
    """Export the backbone of a run for timm, Hugging Face, ONNX or TorchScript, and check that its features agree.

    Examples:
    [bold]care export runs/mine --to onnx[/bold]
    [bold]care export runs/mine --to huggingface --out mine[/bold] (a folder to upload, with a model card)
    """
    with users_input():
        if to not in FILES:
            raise ValueError(f"--to must be one of {', '.join(FILES)}, got {to}")
        if not run.exists():
            raise ValueError(f"{run} does not exist: give the folder of a finished run")
        from care import export as exporting

        file = exporting.place_for(run, to, out)
        claim_file(file)
        file, difference = exporting.export(run, to, file)  # type: ignore[arg-type]
    typer.echo(f"{file} (relative difference of its features: {difference:.1e})")
