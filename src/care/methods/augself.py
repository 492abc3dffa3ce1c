"""AugSelf (Lee, Lee, Lee, Lee and Shin, 2021): predict the difference between two views' augmentation parameters."""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import nn

from care.augment.naming import Policy
from care.losses import parameter_difference
from care.methods.scaled_parameters import ScaledParameters, drawn_names
from care.models import Encoder, projection_head
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
    plan_sharing_all_views,
    setting,
)
from care.objective.settings import names_in

PARAMETERS_OF_IMAGES = {
    "crop": ("x", "y", "scale", "aspect"),
    "color": ("brightness", "contrast", "saturation", "hue"),
    "flip": ("flip",),
    "gray": ("gray",),
    "blur": ("blur",),
    "solarize": ("solarize",),
}
PARAMETERS_OF_CLOUDS = {"rotation": ("rotation_x", "rotation_y", "rotation_z"), "scale": ("scale",)}
USUALLY_PREDICTED = ("crop", "color", "rotation")
WIDEST = 512  # width of the authors' networks φ, for 512 features


@dataclass(frozen=True, kw_only=True)
class AugSelfSettings(Settings):
    """Settings of AugSelf."""

    # The authors' w is 1, with parameters as fractions of the picture and of a factor's range. There, a predictor that
    # knows nothing has a loss of 0.05 (crop) and 0.13 (color); here, with standardized parameters, of 2.
    augself_weight: float = setting(0.05, "w, the weight of the prediction of each of the parameters.", above=0)
    predicted: str | None = setting(
        None,
        "The parameters to predict, separated by commas: crop, color, flip, gray, blur and solarize of images, "
        "rotation and scale of point clouds. Default: those of crop, color and rotation that the policy draws.",
    )
    prediction_width: int | None = setting(
        None, "Width of the networks φ, which have three layers. Default: that of their input, at most 512.", at_least=1
    )  # fmt: skip


class AugSelf(Equivariance):
    """L = L_method + w Σ_k E_i (φ_k([f(x_i); f(x_{i+1})]) − (ω_i − ω_{i+1})_k)², f the features.

    Every view x_i of a sample is compared with the next, and the last with the first; two views are thus compared in
    both orders. ω are the standardized coordinates of an augmentation. For flips, a binary cross-entropy predicts
    whether exactly one of the two views is flipped: the views do not show which one.
    """

    Settings: ClassVar[type[AugSelfSettings]] = AugSelfSettings
    uses_theta = True
    on_features = True

    def __init__(self, settings: Any, encoder: Encoder, context: Context) -> None:
        super().__init__(settings, encoder, context)
        self.standardized = ScaledParameters(context)
        parameters, features = predicted(settings, context), encoder.feature_dim
        width = settings.prediction_width or min(WIDEST, 2 * features)  # in proportion: Muon takes its cube
        self.columns = {name: self._columns(names) for name, names in parameters.items()}
        self.predictors = nn.ModuleDict(
            {name: projection_head(2 * features, width, len(names), depth=3) for name, names in parameters.items()}
        )

    def _columns(self, names: tuple[str, ...]) -> slice:
        first = self.standardized.names.index(names[0])
        return slice(first, first + len(names))

    @classmethod
    def check(cls, settings: Any, context: Context, method: type[Method] | None) -> None:
        """ValueError unless there is a parameter to predict, and the policy draws all of them."""
        predicted(settings, context)

    @classmethod
    def uses_differences(cls, settings: Any) -> bool:
        """Always."""
        return True

    @classmethod
    def plan(cls, settings: Any, views: tuple[ViewSpec, ...], policy: Policy, batch: int) -> ViewPlan:
        """All views of the method; without a method, two."""
        return plan_sharing_all_views(views, policy, batch)

    def terms(self, *views: EncodedView) -> Terms:
        """One term for each predicted parameter."""
        following = (*views[1:], views[0])
        both = [torch.cat([a.f, b.f], 1) for a, b in zip(views, following, strict=True)]
        first, second = (torch.cat([view.parameters for view in some]) for some in (views, following))
        change = self.standardized.between(second, first)
        found = {}
        for name, predictor in self.predictors.items():
            guess, columns, flip = torch.cat(self.forward_views(predictor, both)), self.columns[name], name == "flip"
            # The flip is 0 or 1 and not standardized.
            truth = (first - second)[:, columns].to(change) if flip else change[:, columns]
            loss = parameter_difference(guess, truth, binary=flip)
            found[f"augself_{name}"] = Term(loss, self.settings.augself_weight)
        return found


def predicted(settings: Any, context: Context) -> dict[str, tuple[str, ...]]:
    """The coordinates to predict, by augmentation; ValueError for an augmentation that the policy does not draw."""
    known = PARAMETERS_OF_CLOUDS if context.clouds else PARAMETERS_OF_IMAGES
    drawn = {name: names for name, names in known.items() if set(names) & set(drawn_names(context))}
    if settings.predicted is None:
        chosen = [name for name in drawn if name in USUALLY_PREDICTED]
    else:
        chosen = names_in(settings.predicted, "predicted", ",".join([*known][:2]))
    if missing := [name for name in chosen if name not in drawn]:
        raise ValueError(f"predicted: the policy draws {', '.join(drawn)}, and not {', '.join(missing)}")
    if not chosen:
        raise ValueError("augself has nothing to predict: the policy draws no crop and no color")
    return {name: drawn[name] for name in chosen}
