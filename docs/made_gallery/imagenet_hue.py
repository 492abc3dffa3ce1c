"""
What an ImageNet network knows of hue
=====================================

EfficientNet-Lite0 was trained to classify the thousand classes of ImageNet. Does it also know the color of an object?
Its inputs here are drawn shapes whose class and hue are independent. Ridge regressions decode both from its features
at every depth, and are scored on held-out pictures. The same network with random weights is the baseline: the hue is
in the pixels, so any network passes some of it on.

timm downloads the weights, ``tf_efficientnet_lite0.in1k``. Without a network connection the script ends at once with
``the weights of timm/tf_efficientnet_lite0.in1k cannot be loaded``. In that case, name a file that you have:
``CARE_MODEL=timm/tf_efficientnet_lite0@FILE.safetensors``. The figure below was made from such a file, with published
ImageNet weights of this network.
"""

import math
import os

import torch
from matplotlib.figure import Figure
from torch import Tensor

from care.data import generate_shapes
from care.evaluate.decoding.ridge import fit_ridge
from care.models.layers import layer_names
from care.pretrained import load_pretrained

published = os.environ.get("CARE_MODEL", "timm/tf_efficientnet_lite0.in1k")
networks = {
    "ImageNet weights": load_pretrained(published).encoder,
    "random weights": load_pretrained(published.partition("@")[0].partition(".")[0] + "@random").encoder,
}

# %%
# One forward pass gives the features at every depth: each feature map averaged over its positions, and the last
# features, the input of the ImageNet classifier.

pictures = generate_shapes(800, seed=0, size=96)


@torch.no_grad()
def by_depth(encoder: torch.nn.Module) -> list[Tensor]:
    """Features [n, d] of every layer that can be read, and the last ones."""
    found = []
    for part in pictures.images.split(50):
        x = (part / 255 - encoder.mean[:, None, None]) / encoder.std[:, None, None]
        last, maps = encoder.backbone.forward_intermediates(x)
        found.append([*(m.mean(dim=(2, 3)) for m in maps), encoder.backbone.forward_head(last)])
    return [torch.cat(parts) for parts in zip(*found, strict=True)]


features = {name: by_depth(encoder) for name, encoder in networks.items()}

# %%
# The target of the hue is a point on a circle, so that red is as close to magenta as to orange.

fitted, asked = slice(0, 500), slice(500, None)
angle = 2 * math.pi * pictures.factors["hue"]
circle = torch.stack([angle.cos(), angle.sin()], dim=1)
classes = torch.nn.functional.one_hot(pictures.labels).float()


def decoded(z: Tensor, target: Tensor) -> Tensor:
    """Fit a ridge regression to the first 500 pictures, and predict the target of the others."""
    return fit_ridge(z[fitted], target[fitted]).predict(z[asked])


def hue_point(z: Tensor) -> Tensor:
    """The predicted points, moved to within 1 of the center: rarely active features can send a point far out."""
    point = decoded(z, circle)
    return point / point.norm(dim=1, keepdim=True).clamp_min(1)


def hue_r2(z: Tensor) -> float:
    """1 − E‖prediction − point‖² / Var(point); the points of all hues have the variance 1."""
    return float(1 - (hue_point(z) - circle[asked]).square().sum(1).mean())


def accuracy(z: Tensor) -> float:
    """The share of pictures whose own class has the largest prediction; 0.1 by chance."""
    return float((decoded(z, classes).argmax(1) == pictures.labels[asked]).float().mean())


depths = [*layer_names(networks["ImageNet weights"].backbone), "last"]
scores = {name: {"hue, R²": [*map(hue_r2, z)], "class, accuracy": [*map(accuracy, z)]} for name, z in features.items()}
for name, score in scores.items():
    for what, values in score.items():
        print(f"{name}, {what}: {', '.join(f'{d} {v:.2f}' for d, v in zip(depths, values, strict=True))}")

# %%
# Left and middle: what can be decoded at every depth. Training made the class decodable, at the cost of some of the
# hue: the last features contain less of it than those of random weights, but still most of it. Right: the hues decoded
# from the last features.

figure = Figure(figsize=(11, 3.6), layout="constrained")
for place, what in enumerate(("hue, R²", "class, accuracy"), start=1):
    axis = figure.add_subplot(1, 3, place)
    for name, score in scores.items():
        axis.plot(depths, score[what], marker="o", label=name)
    axis.set(title=what, ylim=(0, 1))
    axis.tick_params(axis="x", rotation=60)
figure.axes[0].legend(loc="lower left")
axis = figure.add_subplot(1, 3, 3)
point, hue = hue_point(features["ImageNet weights"][-1]), pictures.factors["hue"][asked]
axis.scatter(hue, (torch.atan2(point[:, 1], point[:, 0]) / (2 * math.pi)) % 1, c=hue, cmap="hsv", s=8)
axis.set(title="ImageNet weights, last features", xlabel="hue of the shape", ylabel="hue decoded", aspect="equal")
