"""
Point clouds whose rotations rotate embeddings
==============================================

The augmentation is a rotation in space. SimCLR is trained to ignore it; the equivariance loss turns it into a rotation
of the embedding. Both encoders are trained here, on generated chains of points.
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
# How do clouds that the encoders have not seen respond? The held-out ratio is the squared error that the best rotation
# leaves, relative to no rotation: 0 is exact, 1 is no better.

clouds = load("chains", "test").limit(500)
for name, encoder in encoders.items():
    measured = care.measure(encoder, clouds, care.augment.PointPolicy(), augmentations=6, name=name)
    print(f"{name}: held-out ratio {measured.heldout_ratio.mean:.3f}")

# %%
# Six clouds, each rotated through 360° about the vertical axis, in the plane in which their embeddings move most. Where
# rotating the cloud rotates the embedding, every orbit is a circle.

drawn = {name: orbits(lambda x, f=f: {"embedding": f(x)}, clouds.inputs[:6]) for name, f in encoders.items()}
figure = orbit_figure(drawn)
