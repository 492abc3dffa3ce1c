"""AugSelf's loss: by which parameters do the augmentations of two views differ?"""

from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from care.losses.checks import check_views
from care.losses.precision import full_precision


@full_precision
def parameter_difference(
    predicted: Float[Tensor, "n k"], difference: Float[Tensor, "n k"], binary: bool = False
) -> Float[Tensor, ""]:
    """E (φ − (ω1 − ω2))², the mean over samples and parameters.

    With `binary`, for a parameter that is on or off: E [−log σ(φ)] over the samples whose views differ in it, and
    −log(1 − σ(φ)) over the others. Which of the views has it does not count.
    """
    check_views(predicted, difference)
    if binary:
        return binary_cross_entropy_with_logits(predicted, difference.abs().round())
    return (predicted - difference).square().mean()
