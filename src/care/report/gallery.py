"""A gallery of augmentations: rows are images, columns are augmentations."""

import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, UInt8
from matplotlib.figure import Figure
from PIL import Image
from torch import Tensor

from care.augment import ImageParameters, apply, identity
from care.report.look import TITLE

PICTURE_ENDINGS = (".jpg", ".jpeg", ".png", ".gif", ".webp")
MOST = 16  # pictures shown: more rows than a screen has are of no use
FORMATS = ("JPEG", "PNG", "GIF", "WEBP", "BMP", "TIFF", "PPM")  # some of Pillow's others start other programs


def read_pictures(paths: Sequence[Path], side: int) -> tuple[UInt8[Tensor, "n 3 side side"], int]:
    """Pictures at `paths`, and in the folders among them, as central squares of `side` pixels; and how many there are.

    A folder that holds no picture itself stands for those in all its folders, such as photos/cat/1.jpg, by path. Of
    more than 16 pictures, 16 that are evenly spaced are read, the first and the last among them.
    """
    files = [file for path in paths for file in (_pictures_in(path) if path.is_dir() else [path])]
    chosen = np.linspace(0, len(files) - 1, min(len(files), MOST)).round().astype(int)
    return torch.stack([_central_square(_decode(files[i]), side) for i in chosen]), len(files)


def gallery(images: UInt8[Tensor, "n 3 h w"], augmentations: ImageParameters, given: int | None = None) -> Figure:
    """Every image under every augmentation, the original first: one augmentation hits all images alike.

    The title says so if the images are but some of those `given`.
    """
    n, columns = len(images), len(augmentations) + 1
    figure = Figure(figsize=(1.5 * columns, 1.5 * n + 1.1), layout="constrained")
    if given is not None and n < given:
        figure.suptitle(f"{n} of {given} pictures, evenly spaced", fontsize=TITLE)
    axes = figure.subplots(n, columns, squeeze=False)
    for column in range(columns):
        if column == 0:
            views, title = images / 255, "original"
        else:
            views = apply(images, augmentations[column - 1].repeat(n))
            title = "\n".join(augmentations.steps(column - 1)) or "identity"
        for row in range(n):
            _show(axes[row, column], views[row])
        axes[0, column].set_title(title, fontsize=7)
    return figure


def _show(ax: object, image: Float[Tensor, "3 h w"]) -> None:
    ax.imshow(image.permute(1, 2, 0).clamp(0, 1).numpy(), interpolation="nearest")  # type: ignore[attr-defined]
    ax.set_axis_off()  # type: ignore[attr-defined]


def _pictures_in(folder: Path) -> list[Path]:
    """Its own pictures, or else, in the order of their paths, those of the folders in it, however deep."""
    for found in (folder.iterdir(), folder.rglob("*")):
        files = sorted(file for file in found if file.suffix.lower() in PICTURE_ENDINGS and not file.is_dir())
        if files:
            return files
    raise ValueError(f"{folder} holds no picture ({', '.join(PICTURE_ENDINGS)})")


def _decode(file: Path) -> UInt8[Tensor, "3 h w"]:
    try:
        with warnings.catch_warnings(action="ignore"):
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(file, formats=FORMATS) as picture:
                pixels = np.asarray(picture.convert("RGB"))
    except Exception as error:  # the decoders fail in any way they like, and the user must learn on which file
        raise ValueError(f"{file} cannot be read as a picture: {error}") from error
    return torch.tensor(pixels).permute(2, 0, 1)


def _central_square(image: UInt8[Tensor, "3 h w"], side: int) -> UInt8[Tensor, "3 side side"]:
    central = apply(image[None], identity(1, (image.shape[1], image.shape[2]), side))[0]
    return (255 * central).round().to(torch.uint8)
