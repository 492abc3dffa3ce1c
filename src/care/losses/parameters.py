"""AugSelf's loss: predict the difference between the augmentation parameters of two views."""

from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from care.losses.checks import check_views
from care.losses.precision import full_precision


@full_precision
def parameter_difference(
    predicted: Float[Tensor, "n k"], difference: Float[Tensor, "n k"], binary: bool = False
) -> Float[Tensor, ""]:
    """E (φ − (ω1 − ω2))², the mean over samples and parameters, for the prediction φ.

    With `binary`, for a parameter that is on or off, it is the binary cross-entropy: −log σ(φ) for samples whose views
    differ in the parameter, −log(1 − σ(φ)) for the others. It does not matter which of the two views has it on.
    """
    check_views(predicted, difference)
    if binary:
        return binary_cross_entropy_with_logits(predicted, difference.abs().round())
    return (predicted - difference).square().mean()
