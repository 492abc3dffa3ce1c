"""L_inv: the two views of an image should have the same embedding."""

from typing import Literal

from jaxtyping import Float
from torch import Tensor

from care.geometry import Euclidean
from care.losses.checks import check_temperature, check_views
from care.losses.precision import full_precision

Variant = Literal["paper", "authors", "wang-isola"]


@full_precision
def invariance(
    z1: Float[Tensor, "n d"], z2: Float[Tensor, "n d"], variant: Variant = "paper", temperature: float = 0.5
) -> Float[Tensor, ""]:
    """How far apart the embeddings of an image's two views are.

    "paper":      L_inv = E_x ‖f(a x) − f(a' x)‖
    "authors":    −E_x f(a x)·f(a' x) / τ, as in the authors' program; its sum with
                  `uniformity(variant="authors")` is InfoNCE without the positive in the denominator
    "wang-isola": E_x ‖f(a x) − f(a' x)‖²

    `temperature` is τ; only "authors" uses it.
    """
    check_views(z1, z2)
    check_temperature(temperature)
    z1, z2 = Euclidean().embed(z1), Euclidean().embed(z2)
    match variant:
        case "paper":
            return (z1 - z2).norm(dim=1).mean()
        case "authors":
            return -(z1 * z2).sum(1).mean() / temperature
        case "wang-isola":
            return (z1 - z2).square().sum(1).mean()
    raise ValueError(f'variant must be "paper", "authors" or "wang-isola", got {variant!r}')
