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

PICTURE_ENDINGS = (".jpg", ".jpeg", ".png", ".gif", ".webp")
FORMATS = ("JPEG", "PNG", "GIF", "WEBP", "BMP", "TIFF", "PPM")  # some of Pillow's others start other programs


def read_pictures(paths: Sequence[Path], side: int) -> UInt8[Tensor, "n 3 side side"]:
    """The pictures at `paths`, and in the folders among them, as central squares of `side` pixels."""
    files = [file for path in paths for file in (_pictures_in(path) if path.is_dir() else [path])]
    return torch.stack([_central_square(_decode(file), side) for file in files])


def gallery(images: UInt8[Tensor, "n 3 h w"], augmentations: ImageParameters) -> Figure:
    """Every image under every augmentation, the original first: one augmentation hits all images alike."""
    n, columns = len(images), len(augmentations) + 1
    figure = Figure(figsize=(1.5 * columns, 1.5 * n + 1.1), layout="constrained")
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
    files = sorted(file for file in folder.iterdir() if file.suffix.lower() in PICTURE_ENDINGS)
    if not files:
        raise ValueError(f"{folder} holds no picture ({', '.join(PICTURE_ENDINGS)})")
    return files


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
