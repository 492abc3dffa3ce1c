"""A gallery of augmentations: rows are images, columns are augmentations."""

from jaxtyping import Float, UInt8
from matplotlib.figure import Figure
from torch import Tensor

from care.augment import ImageParameters, apply
from care.report.style import TITLE


def gallery(images: UInt8[Tensor, "n 3 h w"], augmentations: ImageParameters, given: int | None = None) -> Figure:
    """Every image under every augmentation, the original first; an augmentation is the same for all images.

    The title says so if the images are only some of the number `given`.
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
