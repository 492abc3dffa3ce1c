"""The paper's objective: a Siamese loss and the equivariance loss, on embeddings of different views."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from care.geometry import BilinearForm
from care.losses.equivariance import EUCLIDEAN, Equivariance
from care.losses.steering import steering
from care.losses.uniformity import orbit_uniformity, slice_uniformity


class CARE(nn.Module):
    """L_CARE = L_InfoNCE + λ L_equi, with any Siamese loss in place of InfoNCE, and + μ L_steering if asked for.

    InfoNCE asks that augmentations change nothing, L_equi that they turn: in the paper, of the same embedding z. With
    `turned` = t they are asked of different coordinates, z = (c, r) with r the last t:
    L = L_InfoNCE(c) + κ (L_slice(r) + ω L_orbit(r) + λ L_equi(r)), where L_slice keeps r from being one point for each
    augmentation, and L_orbit, with ω = `orbit`, from being one point for each image: either has an L_equi of 0. How
    much all that counts is κ = `turning`.

    The six ablations of the paper are settings of this class: `siamese` one of `InfoNCE()`, `Invariance()`,
    `Uniformity()` or None (no such term), and `weight` (λ, in units of the mean over pairs) positive or 0.
    `steering_weight` is μ.
    """

    def __init__(
        self,
        siamese: nn.Module | None,
        weight: float,
        chunks: int,
        form: BilinearForm = EUCLIDEAN,
        steering_weight: float = 0.0,
        turned: int = 0,
        orbit: float = 1.0,
        turning: float = 1.0,
    ) -> None:
        super().__init__()
        for kind, given in {"equivariance": weight, "steering": steering_weight, "orbit": orbit}.items():
            if given < 0:
                raise ValueError(f"the weight of the {kind} loss must not be negative, got {given}")
        if turning <= 0:
            raise ValueError(f"turning must be greater than 0, got {turning}")
        if siamese is None and weight == 0:
            raise ValueError("there is nothing to train: no Siamese loss, and the equivariance loss has weight 0")
        if turned < 0 or (turned and steering_weight):
            raise ValueError(f"turned must not be negative, nor go with a steering loss, got {turned}")
        self.siamese, self.weight, self.steering_weight = siamese, weight, steering_weight
        self.turned, self.orbit, self.turning = turned, orbit, turning if turned else 1.0
        self.equivariance = Equivariance(chunks, form)

    def terms(
        self, views: Sequence[Tensor], chunk_views: Sequence[Tensor], steered_by: Sequence[Tensor] = ()
    ) -> dict[str, Float[Tensor, ""]]:
        """The terms by name, unweighted: what to log. Terms that are switched off are not computed."""
        if self.turned:  # what only the Siamese loss sees, a queue or predictions, may be without them already
            compared = chunk_views[0].shape[1] - self.turned
            if compared < 1:
                raise ValueError(f"{self.turned} turned coordinates of {self.turned + compared} leave none to compare")
            views = [z[:, :compared] for z in views]
        terms = {} if self.siamese is None else {"siamese": self.siamese(*views)}
        terms |= self._turning(*(z[:, -self.turned :] for z in chunk_views)) if self.weight else {}
        return terms | ({"steering": steering(*chunk_views, *steered_by)} if self.steering_weight else {})

    def _turning(self, r1: Float[Tensor, "n t"], r2: Float[Tensor, "n t"]) -> dict[str, Float[Tensor, ""]]:
        """L_equi, and where the contrast does not see r, what keeps it from the two ways in which that is 0."""
        chunks, terms = self.equivariance.chunks, {"equivariance": self.equivariance(r1, r2)}
        terms |= {"slice": slice_uniformity(r1, r2, chunks)} if self.turned else {}
        return terms | ({"orbit": orbit_uniformity(r1, r2, chunks)} if self.turned and self.orbit else {})

    def forward(
        self, views: Sequence[Tensor], chunk_views: Sequence[Tensor], steered_by: Sequence[Tensor] = ()
    ) -> Float[Tensor, ""]:
        """`siamese(*views) + λ · equivariance(*chunk_views) + μ · steering(*chunk_views, *steered_by)`, or as above.

        `views` are what the Siamese loss takes (z1, z2 for InfoNCE): each sample with its own augmentation.
        `chunk_views` are z1, z2 for the equivariance loss: each chunk with one augmentation.
        `steered_by` are what the steering loss takes beside them: the coordinates of both, and the generators.
        """
        return self.total(self.terms(views, chunk_views, steered_by))

    def total(self, terms: dict[str, Float[Tensor, ""]]) -> Float[Tensor, ""]:
        """The weighted sum of the terms."""
        turning = {"slice": 1.0, "orbit": self.orbit, "equivariance": self.weight}
        weights = {name: self.turning * weight for name, weight in turning.items()} | {"steering": self.steering_weight}
        return torch.stack([weights.get(name, 1.0) * term for name, term in terms.items()]).sum()
