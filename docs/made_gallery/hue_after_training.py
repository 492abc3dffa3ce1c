"""
What training does to the hue
=============================

Can the hue of a picture be decoded from frozen features? A ridge regression predicts the hue, as a point on a circle,
and is scored on held-out pictures. Compare a trained network with the same network with random weights: the hue is in
the pixels, so any network passes much of it on.

To test another network, set ``CARE_MODEL=timm/resnet50.a1_in1k@FILE`` in the environment, where ``FILE`` holds its
weights. Nothing is downloaded. For what a network with ImageNet weights knows of hue shifts, see :doc:`/evaluation`.
"""

import math
import os
from pathlib import Path
from tempfile import mkdtemp

import torch
from matplotlib.figure import Figure
from torch import Tensor
from torch.nn.functional import interpolate

import care
from care.data import generate_shapes
from care.evaluate.decoding.ridge import fit_ridge
from care.models import Encoder
from care.pretrained import load_pretrained
from care.train import keeping

settings = {
    "model": "small_resnet", "size": 24, "head_width": 256, "temperature": 0.2, "limit": 2000, "epochs": 4,
    "batch_size": 128, "learning_rate": 3e-3, "schedule": "cosine", "warmup_epochs": 1, "quiet": True,
}  # fmt: skip
work = Path(mkdtemp())
torch.manual_seed(0)
encoders = {
    "random weights": Encoder.build("small_resnet", (24, 24), embedding_dim=64, head_width=256).eval(),
    "SimCLR": care.pretrain("shapes", out=work / "simclr", method="simclr", embedding_dim=64, **settings),
    "SimCLR, split: hue": care.pretrain("shapes", out=work / "keep", chunks=4, **keeping("hue", 64), **settings),
}
if named := os.environ.get("CARE_MODEL"):
    encoders[named.partition("@")[0]] = load_pretrained(named).encoder

# %%
# The regression is fitted to half of the pictures and tested on the other half. The target is a point on the circle, so
# that red is as close to magenta as to orange.

pictures = generate_shapes(1000, seed=1)
hue = 2 * math.pi * pictures.factors["hue"]
circle = torch.stack([hue.cos(), hue.sin()], dim=1)


@torch.no_grad()
def decoded(encoder: Encoder, pixels: int) -> tuple[Tensor, float]:
    """The hues predicted for the second half of the pictures, and R² of the predicted points on the circle."""
    views = interpolate(pictures.images.float() / 255, pixels, mode="bilinear", antialias=True)
    features = torch.cat([encoder.features(part) for part in views.split(100)])
    predicted = fit_ridge(features[:500], circle[:500]).predict(features[500:])
    left = (predicted - circle[500:]).square().sum() / (circle[500:] - circle[500:].mean(0)).square().sum()
    return (torch.atan2(predicted[:, 1], predicted[:, 0]) / (2 * math.pi)) % 1, float(1 - left)


# %%
# Points on the diagonal are decoded correctly. SimCLR's features contain less of the hue than those of random weights:
# its views differ in color, so it is trained to discard the hue, and has begun to. An equivariant part for hue shifts,
# made from these features, makes them keep more. ``--keep hue`` costs less: it makes that part from an earlier layer,
# and adds a loss that predicts color from the features.

figure = Figure(figsize=(3 * len(encoders), 3.3), layout="constrained")
for place, (name, encoder) in enumerate(encoders.items(), start=1):
    found, r2 = decoded(encoder, pixels=128 if name.startswith("timm/") else 24)
    axis = figure.add_subplot(1, len(encoders), place)
    axis.scatter(pictures.factors["hue"][500:], found, c=pictures.factors["hue"][500:], cmap="hsv", s=6)
    axis.set(title=f"{name}: R² {r2:.2f}", xlabel="hue of the shape", xlim=(0, 1), ylim=(0, 1), aspect="equal")
    axis.set_ylabel("hue decoded from the features" if place == 1 else "")
    print(f"{name}: R² {r2:.3f}")
