"""`care bench`: how fast is it here?"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from care.atomic_files import make_folder, write_atomically
from care.cli.errors import users_input
from care.cli.outputs import claim_file
from care.cli.simulation import drawn, simulation
from care.tables import wrapped


def bench(
    parts: Annotated[
        list[str] | None,
        typer.Argument(
            help="train, augment, loader, scaling, start, methods, photos, or all. Default: all but methods and photos."
        ),
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:1.")] = "auto",
    model: Annotated[
        str | None, typer.Option(help="Any timm model. Default: resnet18 on a GPU, test_resnet on a CPU.")
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(help="Images per step and process. Default: 256 on a GPU, 64 on a CPU.")
    ] = None,
    size: Annotated[int | None, typer.Option(help="Side of images and views in pixels. Default: 32.")] = None,
    seconds: Annotated[float | None, typer.Option(help="Time per row. Default: 5 on a GPU, 2 on a CPU.")] = None,
    processes: Annotated[
        str | None, typer.Option(help="Numbers of processes for scaling, such as 1,2,4. Default: 1,2, or all GPUs.")
    ] = None,
    images: Annotated[
        int | None,
        typer.Option(help="Images in the store for loader. Default: 50,000 on a GPU, or 4 GB; 10,000 on a CPU."),
    ] = None,
    compile: Annotated[
        bool | None, typer.Option("--compile/--no-compile", help="As care train --compile. Default: on a GPU only.")
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(help="With methods: only this --method or --equivariance. Can be repeated."),
    ] = None,
    photos: Annotated[
        Path | None,
        typer.Option("--data", help="With photos: your folder, as for care train --data. Default: generated photos."),
    ] = None,
    simulate: Annotated[
        int | None,
        typer.Option(help="With scaling: measure one process, simulate 8, 64 … up to N GPUs.", min=2, max=65536),
    ] = None,
    measured: Annotated[
        Path | None,
        typer.Option(help="With --simulate: the JSON of care bench train on any machine, instead of measuring here."),
    ] = None,
    node: Annotated[int, typer.Option(help="With --simulate: GPUs per node.", min=1)] = 8,
    inside: Annotated[
        str, typer.Option(help="With --simulate: GB/s per GPU within a node, and µs per hop. An assumption.")
    ] = "400,1.5",
    between: Annotated[
        str, typer.Option(help="With --simulate: GB/s per GPU between nodes, and µs per hop. An assumption.")
    ] = "50,5",
    out: Annotated[Path, typer.Option(help="Where to write every number, as JSON.")] = Path("bench.json"),
) -> None:
    """Measure the speed of training, augmentation, loading, scaling, startup, and all methods, on random images.

    Training is compared with the limit of this machine, and with the same method as it is usually written: a
    DataLoader, torchvision on one picture at a time, one forward pass per view. Progress goes to the error stream.

    Examples:
    [bold]care bench[/bold]
    [bold]care bench train augment --model resnet50[/bold]
    [bold]care bench methods --only augself --only equimod[/bold]
    [bold]care bench scaling --simulate 512[/bold]
    [bold]care bench photos[/bold] (ResNet-50 and ViT-S/16 at 224 pixels, from JPEGs to the step)
    [bold]care bench photos --data photos/[/bold] (does the GPU wait for yours?)
    """
    with users_input():
        from care.bench import check_methods, check_photos, chosen_parts, default_settings, measure_speed

        names = chosen_parts(parts or [])
        settings = default_settings(
            device,
            of_photos=names == ["photos"],
            model=model,
            batch_size=batch_size,
            size=size,
            seconds=seconds,
            processes=_numbers(processes),
            images=images,
            compile=compile,
            methods=tuple(only or ()),
            photos=None if photos is None else str(photos),
        )
        if photos is not None and "photos" not in names:
            raise ValueError("--data is for one part: care bench photos --data FOLDER")
        if (simulate or measured) and (names != ["scaling"] or simulate is None):
            raise ValueError("--simulate and --measured are for one part: care bench scaling --simulate 512")
        settings.check()
        if "methods" in names:
            check_methods(settings)
        if "photos" in names:
            check_photos(settings)
        imagined = simulation(simulate, measured, node, inside, between) if simulate else None
        make_folder(out.absolute().parent)
        claim_file(out)
    report = imagined(settings, _with_seconds()) if imagined else measure_speed(names, settings, _with_seconds())
    with users_input():
        write_atomically(out, report.to_json().encode())
        if imagined:
            write_atomically(out.with_suffix(".png"), drawn(report))
    typer.echo(f"{report.tables[0].text() if imagined else report.text()}\n\n{out}")


def _with_seconds() -> Callable[[str], None]:
    """Print lines on the error stream, each after the seconds that have passed."""
    started = time.perf_counter()

    def show(line: str) -> None:
        typer.echo(wrapped(f"{time.perf_counter() - started:7.1f} s  {line}", indent=" " * 11), err=True)

    return show


def _numbers(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError as error:
        raise ValueError(f"expected numbers of processes such as 1,2,4, got {text!r}") from error
