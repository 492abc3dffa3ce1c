"""DCL: InfoNCE whose denominator leaves out the positive."""

from jaxtyping import Float
from torch import Tensor

from care.losses.checks import check_temperature
from care.losses.compare import ALL, compare, mean_over_positives
from care.losses.precision import full_precision


@full_precision
def dcl(
    *views: Float[Tensor, "n d"], temperature: float = 0.1, tile: int | None = None, anchors: slice = ALL
) -> Float[Tensor, ""]:
    """L_DCL = E_i [−z_i·z_i⁺/τ + log Σ_{2N−2 negatives} e^{z_i·z⁻/τ}].

    Positives, negatives, more than two views, `tile` and `anchors` work as in `info_nce`. For an easy positive, the
    gradient of InfoNCE almost vanishes; that of DCL does not.
    """
    check_temperature(temperature)
    cosine, (negatives,) = compare(views, [1 / temperature], tile, anchors)
    return mean_over_positives(negatives - cosine / temperature)
