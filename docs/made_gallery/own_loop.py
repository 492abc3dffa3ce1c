"""
CARE in a loop of your own
==========================

InfoNCE compares two views of each picture, with one augmentation drawn per picture. The equivariance loss compares two
more views, with one augmentation drawn per chunk: the angles between the embeddings of a chunk should not change. You
do not need care's training loop for this: ``sample`` draws augmentations, ``repeat`` shares each within a chunk, and
``apply`` makes the views.
"""

import torch
from matplotlib.figure import Figure
from torch import Tensor

import care
from care.augment import apply
from care.data import generate_shapes
from care.losses import equivariance, info_nce
from care.models import Encoder

BATCH, CHUNKS = 64, 8


def draw(images: Tensor, policy: care.augment.ImagePolicy, generator: torch.Generator) -> tuple[Tensor, ...]:
    """Two views with an augmentation per picture, and two with an augmentation per chunk of neighbors."""
    n, input_shape = len(images), (images.shape[2], images.shape[3])
    each = [policy.sample(n, input_shape, generator) for _ in range(2)]
    shared = [policy.sample(CHUNKS, input_shape, generator).repeat(n // CHUNKS) for _ in range(2)]
    return tuple(apply(images, parameters) for parameters in (*each, *shared))


# %%
# The loop. ``weight`` is λ; with λ = 0 this is SimCLR, and the equivariance loss is only recorded.


def train(weight: float, epochs: int = 8, pictures: int = 512) -> list[tuple[float, float]]:
    """Train an encoder; returns (InfoNCE, equivariance loss) of every epoch."""
    torch.manual_seed(0)
    images = generate_shapes(pictures, seed=0).images  # uint8 [n, 3, 32, 32]: yours
    policy, generator = care.augment.simclr(size=24), torch.Generator().manual_seed(0)
    encoder = Encoder.build("small_resnet", (24, 24), embedding_dim=32, head_width=128)  # any network would do
    optimizer = torch.optim.Adam(encoder.parameters(), lr=5e-3)
    history = []
    for _ in range(epochs):
        losses = []
        for batch in images[torch.randperm(len(images), generator=generator)].split(BATCH):
            z1, z2, e1, e2 = (encoder(view) for view in draw(batch, policy, generator))
            contrast, angles = info_nce(z1, z2, temperature=0.2), equivariance(e1, e2, chunks=CHUNKS)
            optimizer.zero_grad()
            (contrast + weight * angles).backward()
            optimizer.step()
            losses.append([contrast.item(), angles.item()])
        history.append(tuple(torch.tensor(losses).mean(0).tolist()))
    return history


# %%
# Train both encoders and plot both losses. With λ = 3 the angles are preserved, at a price: the contrastive loss ends
# about 0.1 higher.

if __name__ == "__main__":
    runs = {"SimCLR (λ = 0)": train(0.0), "CARE (λ = 3)": train(3.0)}
    figure = Figure(figsize=(7, 2.8), layout="constrained")
    axes = figure.subplots(1, 2)
    for axis, title, which in zip(axes, ("InfoNCE", "equivariance loss"), (0, 1), strict=True):
        for name, history in runs.items():
            axis.plot(range(1, len(history) + 1), [losses[which] for losses in history], "o-", label=name)
        axis.set(title=title, xlabel="epoch", ylim=(0, None) if which else None)
    axes[0].legend()
