"""SimSiam (Chen and He, 2021): predict the embedding of the other view, which carries no gradient."""

from typing import Any

from care.losses import mean_over_pairs, simsiam
from care.models import Encoder, projection_head
from care.objective import Context, EncodedView, Method, Term, Terms


class SimSiam(Method):
    """L = −(E cos(p1, sg z2) + E cos(p2, sg z1)) / 2, p = predictor(z)."""

    gathered = False
    any_views = True

    def __init__(self, settings: Any, encoder: Encoder, context: Context) -> None:
        super().__init__(settings, encoder, context)
        self.predictor = projection_head(context.invariant_dim, context.head_width, context.invariant_dim)

    def terms(self, *views: EncodedView) -> Terms:
        """The loss of both predictions, over all pairs of views."""
        z = [view.z for view in views]
        both = list(zip(self.forward_views(self.predictor, z), z, strict=True))
        return {"simsiam": Term(mean_over_pairs(lambda a, b: simsiam(a[0], b[0], a[1], b[1]), both))}
