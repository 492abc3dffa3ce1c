"""SimSiam and BYOL: predict the other view's embedding, without negatives."""

from jaxtyping import Float
from torch import Tensor

from care.geometry import Euclidean
from care.losses.checks import check_views
from care.losses.precision import full_precision


@full_precision
def simsiam(
    p1: Float[Tensor, "n d"], p2: Float[Tensor, "n d"], z1: Float[Tensor, "n d"], z2: Float[Tensor, "n d"]
) -> Float[Tensor, ""]:
    """−(E cos(p1, sg z2) + E cos(p2, sg z1)) / 2.

    p_v is the prediction made from view v, z_v its embedding, and sg stops the gradient.
    """
    check_views(p1, p2, z1, z2)
    p1, p2, z1, z2 = (Euclidean().embed(v) for v in (p1, p2, z1.detach(), z2.detach()))
    return -((p1 * z2).sum(1).mean() + (p2 * z1).sum(1).mean()) / 2


def byol(
    p1: Float[Tensor, "n d"], p2: Float[Tensor, "n d"], z1: Float[Tensor, "n d"], z2: Float[Tensor, "n d"]
) -> Float[Tensor, ""]:
    """E ‖p̂1 − sg ẑ2‖² + E ‖p̂2 − sg ẑ1‖² for unit vectors p̂, ẑ, that is 4 + 4 · `simsiam`.

    Unlike in SimSiam, z comes from the teacher.
    """
    return 4 + 4 * simsiam(p1, p2, z1, z2)
