"""`care export`: write the encoder of a run for another program."""

from pathlib import Path
from typing import Annotated

import typer

from care.atomic_files import make_folder
from care.cli.errors import users_input
from care.cli.outputs import claim_file
from care.export import FILES, check_model, place_for


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
        if not run.exists():
            raise ValueError(f"{run} does not exist: give the folder of a finished run")
        file = place_for(run, to, out)
        check_model(run, to)
        make_folder(file.absolute().parent)
        claim_file(file)
        from care.export import export as write

        file, difference = write(run, to, file)  # type: ignore[arg-type]
    typer.echo(f"{file} (relative difference of its features: {difference:.1e})")
