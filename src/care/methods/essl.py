"""E-SSL (Dangovski et al., 2022): predict the number of quarter turns of a crop."""

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any, ClassVar

from torch import nn

from care.augment import ImagePolicy
from care.augment.naming import Policy
from care.losses import quarter_turns
from care.models import Encoder
from care.models.timm_models import MISFITS, output_width
from care.objective import (
    Context,
    EncodedView,
    Equivariance,
    Method,
    Settings,
    Term,
    Terms,
    ViewPlan,
    ViewSpec,
    setting,
)

SMALLEST = 8  # pixels
LARGEST_CHUNK = 64  # of which some images are turned
WIDEST = 2048  # width of the authors' network that predicts turns, for 512 features


@dataclass(frozen=True, kw_only=True)
class ESSLSettings(Settings):
    """Settings of E-SSL."""

    essl_weight: float = setting(0.4, "λ, the weight of the prediction of quarter turns.", above=0)
    turned_fraction: float = setting(
        1.0,
        "Turn a crop of this fraction of the images. The crops are as large as makes them as many pixels as one view: "
        "at 1 of half of its size, at 0.25 of its size, which is faster, because they share its pass.",
        above=0, at_most=1,
    )  # fmt: skip
    turn_width: int | None = setting(
        None, "Width of the network that predicts quarter turns. Default: 4 times the features, at most 2048.",
        at_least=1,
    )  # fmt: skip


class ESSL(Equivariance):
    """L = L_method + λ E_x E_k [−log softmax(h(f(r^k x)))_k], k = 0 … 3 quarter turns r^k of one crop of each image.

    All four go through the backbone in one batch, so that BatchNorm cannot remove the differences between turns.
    """

    Settings: ClassVar[type[ESSLSettings]] = ESSLSettings
    on_features = True

    def __init__(self, settings: Any, encoder: Encoder, context: Context) -> None:
        super().__init__(settings, encoder, context)
        assert isinstance(context.policy, ImagePolicy)
        check_sizes(encoder, context.policy.size, turned_size(settings.turned_fraction, context.policy.size))
        features = encoder.feature_dim
        self.head = turn_head(features, settings.turn_width or min(WIDEST, 4 * features))

    @classmethod
    def check(cls, settings: Any, context: Context, method: type[Method] | None) -> None:
        """ValueError unless the samples are images."""
        if context.clouds:
            raise ValueError("essl turns images by quarters: for point clouds choose augself, which predicts rotations")
        check_turned(settings, context.batch // context.processes)

    @classmethod
    def plan(cls, settings: Any, views: tuple[ViewSpec, ...], policy: Policy, batch: int) -> ViewPlan:
        """The method's views, and a crop of each image in all four turns."""
        assert isinstance(policy, ImagePolicy)
        small, kept = policy.resized(turned_size(settings.turned_fraction, policy.size)), turned_of_chunk(settings)
        turned = ViewSpec(small, batch, turned=True, chunk=kept.denominator, kept=kept.numerator)
        return ViewPlan((*views, turned), tuple(range(len(views))), (len(views),))

    def terms(self, *views: EncodedView) -> Terms:
        """The cross-entropy of the turns."""
        (turned,) = views
        return {"essl": Term(quarter_turns(self.head(turned.f)), self.settings.essl_weight)}


def turned_of_chunk(settings: Any) -> Fraction:
    """Which of neighboring images are turned: the first p of every q, for a fraction p/q."""
    return Fraction(settings.turned_fraction).limit_denominator(LARGEST_CHUNK)


def check_turned(settings: Any, images: int) -> None:
    """ValueError unless `images`, those of a process, are whole chunks."""
    if images % (chunk := turned_of_chunk(settings).denominator):
        raise ValueError(
            f"turned_fraction {settings.turned_fraction:g} needs a multiple of {chunk} images in each process, got "
            f"{images}: choose another batch_size, or turned_fraction 1"
        )


def turned_size(fraction: float, size: int) -> int:
    """The side of the turned crops, t: four turns are as many pixels as one view, 4 fraction t² = size²."""
    return min(size, max(SMALLEST, round(size / (2 * fraction**0.5))))


def turn_head(features: int, width: int) -> nn.Sequential:
    """h: three layers with LayerNorm and ReLU between them."""
    widths = (features, width, width)
    layers: list[nn.Module] = []
    for before, after in pairwise(widths):
        layers += [nn.Linear(before, after), nn.LayerNorm(after), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers, nn.Linear(width, 4))


def check_sizes(encoder: Encoder, size: int, turned: int) -> None:
    """ValueError if the network does not accept turned crops of a different size than the views."""
    try:
        output_width(encoder.backbone, (turned, turned))
    except MISFITS as error:
        raise ValueError(
            f"this model accepts pictures of {size} pixels, but not of {turned}: choose `turned_fraction` 0.25"
        ) from error
