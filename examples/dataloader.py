"""InfoNCE + λ · the equivariance loss, with a DataLoader whose workers draw: `python examples/dataloader.py`."""

import torch
from torch.utils.data import DataLoader, TensorDataset

import care
from care.data import generate_shapes
from care.losses import equivariance, info_nce
from care.models import Encoder

BATCH, CHUNKS, WEIGHT = 64, 8, 3.0  # WEIGHT is λ


def main(epochs: int = 5, workers: int = 2) -> list[float]:
    """Train, print the loss of every epoch, and return them."""
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    shapes = generate_shapes(256, seed=0)
    loader = DataLoader(
        TensorDataset(shapes.images, shapes.labels),  # any data set of pictures of one size, with labels or without
        batch_size=BATCH,
        shuffle=True,
        drop_last=True,  # a batch falls into chunks of the same size
        num_workers=workers,
        pin_memory=device.type == "cuda",
        collate_fn=care.augment.ChunkCollate(care.augment.simclr(size=24), CHUNKS),
    )
    encoder = Encoder.build("small_resnet", (24, 24), embedding_dim=32, head_width=128).to(device)
    optimizer = torch.optim.Adam(encoder.parameters(), lr=5e-3)
    history = []
    for epoch in range(epochs):
        losses = []
        for batch in loader:
            (x1, x2), (y1, y2) = batch.to(device, non_blocking=True).views()  # made on the device
            loss = info_nce(encoder(x1), encoder(x2), temperature=0.2)
            loss = loss + WEIGHT * equivariance(encoder(y1), encoder(y2), chunks=CHUNKS)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        history.append(sum(losses) / len(losses))
        print(f"epoch {epoch + 1}  loss {history[-1]:.3f}")
    return history


if __name__ == "__main__":
    main()
