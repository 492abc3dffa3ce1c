"""InfoNCE + λ · the equivariance loss in a plain PyTorch loop: `python examples/plain_loop.py`."""

import torch
from torch import Tensor

import care
from care.augment import apply
from care.data import generate_shapes
from care.losses import equivariance, info_nce
from care.models import Encoder

BATCH, CHUNKS, WEIGHT = 64, 8, 3.0  # WEIGHT is λ


def draw(images: Tensor, policy: care.augment.ImagePolicy, generator: torch.Generator) -> tuple[Tensor, ...]:
    """Two views with an augmentation per picture, and two with an augmentation per chunk of neighbors."""
    n, source = len(images), (images.shape[2], images.shape[3])
    each = [policy.sample(n, source, generator) for _ in range(2)]
    shared = [policy.sample(CHUNKS, source, generator).repeat(n // CHUNKS) for _ in range(2)]
    return tuple(apply(images, parameters) for parameters in (*each, *shared))


def main(epochs: int = 5) -> list[float]:
    """Train, print the loss of every epoch, and return them."""
    torch.manual_seed(0)
    images = generate_shapes(256, seed=0).images  # uint8 [n, 3, 32, 32]: yours
    policy, generator = care.augment.simclr(size=24), torch.Generator().manual_seed(0)
    encoder = Encoder.build("small_resnet", (24, 24), embedding_dim=32, head_width=128)  # any network would do
    optimizer = torch.optim.Adam(encoder.parameters(), lr=5e-3)
    history = []
    for epoch in range(epochs):
        losses = []
        for batch in images[torch.randperm(len(images), generator=generator)].split(BATCH):
            z1, z2, e1, e2 = (encoder(view) for view in draw(batch, policy, generator))
            loss = info_nce(z1, z2, temperature=0.2) + WEIGHT * equivariance(e1, e2, chunks=CHUNKS)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        history.append(sum(losses) / len(losses))
        print(f"epoch {epoch + 1}  loss {history[-1]:.3f}")
    return history


if __name__ == "__main__":
    main()
