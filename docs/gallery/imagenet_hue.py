"""
What a trained network knows of hue
===================================

Can the hue of a picture be read off frozen features? A ridge regression from the features to the point of the hue on
its circle says so, on pictures that it was not fitted to.

Name an ImageNet network and the file of its weights in the environment, ``CARE_MODEL=timm/resnet50.a1_in1k@FILE``, and
it is asked. Without, as on this page, a small encoder that is trained here by SimCLR stands in for it: weights are not
downloaded.
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

named = os.environ.get("CARE_MODEL")
if named:
    pixels, trained = 128, load_pretrained(named).encoder
    untrained = load_pretrained(named.partition("@")[0].partition(".")[0] + "@random").encoder
else:
    pixels, named = 24, "small_resnet, SimCLR"
    trained = care.pretrain(
        "shapes", out=Path(mkdtemp()) / "run", method="simclr", model="small_resnet", size=24, embedding_dim=64,
        head_width=256, temperature=0.2, limit=3000, epochs=4, batch_size=128, learning_rate=3e-3, schedule="cosine",
        quiet=True,
    )  # fmt: skip
    torch.manual_seed(0)
    untrained = Encoder.build("small_resnet", (24, 24), embedding_dim=64, head_width=256).eval()

# %%
# Half of the pictures are fitted, the other half is asked. The target is a point on the circle, so that red is as close
# to magenta as to orange.

pictures = generate_shapes(1000, seed=1)
hue = 2 * math.pi * pictures.factors["hue"]
circle = torch.stack([hue.cos(), hue.sin()], dim=1)


@torch.no_grad()
def decoded(encoder: Encoder) -> tuple[Tensor, float]:
    """The hues that the features of the second half stand for, and R² of their points on the circle."""
    views = interpolate(pictures.images.float() / 255, pixels, mode="bilinear", antialias=True)
    features = torch.cat([encoder.features(part) for part in views.split(100)])
    predicted = fit_ridge(features[:500], circle[:500]).predict(features[500:])
    left = (predicted - circle[500:]).square().sum() / (circle[500:] - circle[500:].mean(0)).square().sum()
    return (torch.atan2(predicted[:, 1], predicted[:, 0]) / (2 * math.pi)) % 1, float(1 - left)


# %%
# On the diagonal, the hue is decoded. A random network already has it, for it is in the pixels. What training does to
# it depends on the augmentations: SimCLR with color jitter is trained to forget it.

figure = Figure(figsize=(7, 3.4), layout="constrained")
axes = figure.subplots(1, 2, sharey=True)
for axis, (name, encoder) in zip(axes, {"random weights": untrained, named: trained}.items(), strict=True):
    found, r2 = decoded(encoder)
    axis.scatter(pictures.factors["hue"][500:], found, c=pictures.factors["hue"][500:], cmap="hsv", s=8)
    axis.set(title=f"{name}: R² {r2:.2f}", xlabel="hue of the shape", xlim=(0, 1), ylim=(0, 1), aspect="equal")
    print(f"{name}: R² {r2:.3f}")
axes[0].set_ylabel("hue decoded from the features")
