"""The same as a Lightning module: `pip install lightning`, then `python examples/lightning_module.py`."""

import lightning
import torch
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

import care
from care.augment import AugmentedBatch, ChunkCollate
from care.data import generate_shapes
from care.losses import equivariance, info_nce
from care.models import Encoder

BATCH, CHUNKS, WEIGHT = 64, 8, 3.0  # WEIGHT is λ


class Contrastive(lightning.LightningModule):
    """SimCLR with CARE. Lightning moves the batch to the device, where its views are made."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = Encoder.build("small_resnet", (24, 24), embedding_dim=32, head_width=128)
        self.history: list[float] = []

    def training_step(self, batch: AugmentedBatch, _: int) -> Tensor:
        """InfoNCE + λ · the equivariance loss."""
        (z1, z2), (e1, e2) = ([self.encoder(view) for view in views] for views in batch.views())
        loss = info_nce(z1, z2, temperature=0.2) + WEIGHT * equivariance(e1, e2, chunks=CHUNKS)
        self.log("loss", loss, on_step=False, on_epoch=True, batch_size=len(batch))
        return loss

    def on_train_epoch_end(self) -> None:
        """Print the mean loss of the epoch."""
        self.history.append(self.trainer.callback_metrics["loss"].item())
        print(f"epoch {self.current_epoch + 1}  loss {self.history[-1]:.3f}")

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Adam."""
        return torch.optim.Adam(self.parameters(), lr=5e-3)


def main(epochs: int = 5, **trainer: object) -> list[float]:
    """Train, print the loss of every epoch, and return them."""
    lightning.seed_everything(0, verbose=False)
    collate = ChunkCollate(care.augment.simclr(size=24), CHUNKS)
    images = TensorDataset(generate_shapes(256, seed=0).images)
    loader = DataLoader(images, batch_size=BATCH, shuffle=True, drop_last=True, num_workers=2, collate_fn=collate)
    module = Contrastive()
    lightning.Trainer(max_epochs=epochs, logger=False, enable_checkpointing=False, **trainer).fit(module, loader)
    return module.history


if __name__ == "__main__":
    main()
