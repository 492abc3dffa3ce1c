"""
Point clouds whose rotations rotate embeddings
==============================================

The augmentation is a rotation in space. SimCLR learns to ignore it; the equivariance loss turns it into a rotation of
the embedding. This script trains both encoders on generated chains of points.
"""

from pathlib import Path
from tempfile import mkdtemp

import care
from care.data import load
from care.evaluate.effects.orbits import orbits
from care.report import orbit_figure

settings = {"limit": 3000, "epochs": 4, "batch_size": 128, "learning_rate": 3e-3, "schedule": "cosine", "quiet": True}
work = Path(mkdtemp())
encoders = {
    "SimCLR": care.pretrain("chains", out=work / "simclr", method="simclr", **settings),
    "CARE, λ = 30": care.pretrain(
        "chains", out=work / "care", equivariance="care", care_weight=30, chunks=8, **settings
    ),
}

# %%
# How do the embeddings of unseen clouds respond to rotations? The held-out ratio is the squared error of the best
# rotation, relative to the error without a rotation: 0 is exact, 1 is no better than no rotation.

clouds = load("chains", "test").limit(500)
for name, encoder in encoders.items():
    measured = care.measure(encoder, clouds, care.augment.PointPolicy(), augmentations=6, name=name)
    print(f"{name}: held-out ratio {measured.heldout_ratio.mean:.3f}")

# %%
# Rotate six clouds through 360° about the vertical axis. The figure shows the plane in which their embeddings move
# most. If rotating a cloud rotates its embedding, every orbit is a circle.

drawn = {name: orbits(lambda x, f=f: {"embedding": f(x)}, clouds.inputs[:6]) for name, f in encoders.items()}
figure = orbit_figure(drawn)
