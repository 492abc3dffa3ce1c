"""Targets to decode from features: the parameters of an augmentation, or the factors of a generated sample."""

import math
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from care.augment import ImageParameters, Parameters, PointParameters
from care.augment.coordinates import SMALLEST_FACTOR
from care.data import Samples
from care.data.silhouettes import SILHOUETTES

QUARTER = 0.25  # of the hue circle


class Target(NamedTuple):
    """The values of one quantity in t columns, to be regressed, and the rows in which it is known."""

    values: Float[Tensor, "n t"]
    known: Bool[Tensor, " n"]


def parameter_targets(p: Parameters) -> dict[str, Target]:
    """The parameters of the drawn augmentations by name; those that are the same for all are left out.

    For images: the center of the crop (`crop x`, `crop y`) as a fraction of the image, the logarithms of its share of
    the area and of width / height (`crop area`, `crop aspect`), of the factors `brightness`, `contrast` and
    `saturation`, the `hue` shift as a fraction of the hue circle or, where shifts of more than a quarter are drawn, as
    cos and sin of its angle, since −½ and ½ are the same shift; the σ of the `blur` in pixels (0 without blur); and
    `flip`, `gray` and `solarize` as 0 or 1. For point clouds: the entries of the rotation (`rotation 0 0` …) and
    the logarithm of the `scale`.

    A parameter is known where the picture shows it. On a gray picture, a shift of hue or a factor of saturation has no
    effect, and an effect from before the picture turned gray is lost. Both are therefore known only without `gray` and
    without a contrast of 0, hue only without a saturation of 0; on a black picture, neither they nor the contrast are
    known. All other parameters are known everywhere: "not applied" is a value.
    """
    if isinstance(p, ImageParameters):
        targets = _crop_targets(p) | _color_targets(p)
        hidden = _hidden(p)
    elif isinstance(p, PointParameters):
        targets = {f"rotation {i} {j}": p.rotation[:, i, j] for i in range(3) for j in range(3)}
        targets["scale"], hidden = p.scale.log(), {}
    else:
        raise ValueError(f"targets are known for augmentations of images and of point clouds, not {type(p).__name__}")
    everywhere = torch.ones(len(p), dtype=torch.bool, device=next(iter(targets.values())).device)
    return {
        name: Target(column.reshape(len(column), -1), ~hidden[name] if name in hidden else everywhere)
        for name, column in targets.items()
        if (column != column[:1]).any()
    }


def factor_targets(samples: Samples) -> dict[str, Target]:
    """The factors of generated samples by name, unchanged except for the two angles of `shapes`.

    A number that jumps where the image does not cannot be regressed, so `hue` becomes cos and sin of 2π · hue, and
    `angle` those of 2π · symmetry · angle, with the symmetry of the shape. For shapes that look the same at every
    angle, the angle is not `known`.
    """
    repeats = _repeats(samples)
    targets = {}
    for name, values in samples.factors.items():
        if name in repeats:
            targets[name] = Target(_on_the_circle(repeats[name] * values), repeats[name] > 0)
        else:
            known = torch.ones(len(values), dtype=torch.bool, device=values.device)
            targets[name] = Target(values.reshape(len(values), -1), known)
    return targets


def _repeats(samples: Samples) -> dict[str, Int[Tensor, " n"]]:
    """How many times an image repeats itself within one revolution of an angle; 0 where it never changes."""
    if samples.classes != tuple(SILHOUETTES):
        return {}
    labels = samples.labels
    symmetries = torch.tensor([silhouette.symmetry for silhouette in SILHOUETTES.values()], device=labels.device)
    return {"hue": torch.ones_like(labels), "angle": torch.where(labels >= 0, symmetries[labels], 0)}


def _crop_targets(p: ImageParameters) -> dict[str, Float[Tensor, " n"]]:
    (rows, columns), height, width = p.input_shape, p.height.float(), p.width.float()
    return {
        "crop x": (p.left + width / 2) / columns,
        "crop y": (p.top + height / 2) / rows,
        "crop area": (height * width / (rows * columns)).log(),
        "crop aspect": (width / height).log(),
    }


def _color_targets(p: ImageParameters) -> dict[str, Float[Tensor, "n ..."]]:
    """All parameters of image augmentations except the crop's, including the flip."""
    return {
        "flip": p.flip.float(),
        "brightness": p.brightness.clamp_min(SMALLEST_FACTOR).log(),
        "contrast": p.contrast.clamp_min(SMALLEST_FACTOR).log(),
        "saturation": p.saturation.clamp_min(SMALLEST_FACTOR).log(),
        "hue": _on_the_circle(p.hue) if p.hue.abs().max() > QUARTER else p.hue,
        "gray": p.gray.float(),
        "blur": torch.where(p.blur, p.sigma, 0.0),
        "solarize": p.solarize.float(),
    }


def _hidden(p: ImageParameters) -> dict[str, Bool[Tensor, " n"]]:
    """Where a color parameter has no visible effect, because another one removes it: see `parameter_targets`."""
    black, flat, gray = (x <= SMALLEST_FACTOR for x in (p.brightness, p.contrast, p.saturation))
    return {"contrast": black, "saturation": black | flat | p.gray, "hue": black | flat | gray | p.gray}


def _on_the_circle(fraction: Float[Tensor, " n"]) -> Float[Tensor, "n 2"]:
    angle = 2 * math.pi * fraction
    return torch.stack([angle.cos(), angle.sin()], dim=1)
