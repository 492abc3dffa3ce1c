"""SimSiam (Chen and He, 2021): predict the embedding of the other view, through which no gradient flows."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from care.losses import mean_over_pairs, simsiam
from care.models import Encoder, projection_head
from care.objective import Context, EncodedView, Method, Settings, Term, Terms, setting


@dataclass(frozen=True, kw_only=True)
class SimSiamSettings(Settings):
    """Settings of SimSiam."""

    predictor_width: int | None = setting(
        None, "Width of the predictor. Default: that of the head.", at_least=1, at_most=1 << 16
    )


class SimSiam(Method):
    """L = −(E cos(p1, sg z2) + E cos(p2, sg z1)) / 2, p = predictor(z).

    The authors' predictor is a bottleneck, a quarter as wide as its input.
    """

    Settings = SimSiamSettings
    head: ClassVar[Mapping[str, Any]] = {
        "embedding_dim": 2048, "head_width": 2048, "head_depth": 3, "head_batchnorm": True, "head_last_batchnorm": True,
        "predictor_width": 512,
    }  # fmt: skip
    gathered = False
    any_views = True

    def __init__(self, settings: Any, encoder: Encoder, context: Context) -> None:
        super().__init__(settings, encoder, context)
        width = settings.predictor_width or context.head_width
        self.predictor = projection_head(context.invariant_dim, width, context.invariant_dim)

    def terms(self, *views: EncodedView) -> Terms:
        """The loss of both predictions, over all pairs of views."""
        z = [view.z for view in views]
        both = list(zip(self.forward_views(self.predictor, z), z, strict=True))
        return {"simsiam": Term(mean_over_pairs(lambda a, b: simsiam(a[0], b[0], a[1], b[1]), both))}
