"""What the demo trains, and how much it measures. Chosen on samples cut from train, with seeds 0 and 1."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from care.evaluate import Settings
from care.train import Config, default_config
from care.train.recipes import applicable

SPLIT = "CARE, split embedding"


@dataclass(frozen=True)
class Lesson:
    """A data set, the settings of all encoders that are trained on it, and the λ that makes CARE of them.

    `split` are the settings of one more, with a split embedding: an invariant and an equivariant part.
    """

    data: str
    settings: Mapping[str, Any]
    weight: float
    split: Mapping[str, Any] = field(default_factory=dict)

    def configs(self, seed: int) -> dict[str, Config]:
        """SimCLR, the same with CARE, and with a split embedding."""
        shared = {"seed": seed, "device": "cpu", "schedule": "cosine", **self.settings}
        care = {"equivariance": "care", "care_weight": self.weight}
        chosen = {"SimCLR": {}, "CARE": care}
        chosen |= {SPLIT: {**care, "equivariance": "split", **self.split}} if self.split else {}
        return {
            name: default_config(self.data, **{**applicable(shared, settings), **settings})
            for name, settings in chosen.items()
        }


SHAPES = Lesson(
    "shapes",
    {
        "model": "small_resnet", "size": 24, "embedding_dim": 64, "head_width": 256, "temperature": 0.2,
        "limit": 9_000, "epochs": 4, "batch_size": 128, "chunks": 4, "learning_rate": 3e-3,
        "warmup_epochs": 1,  # without it CARE's probe is anywhere from 41 to 51 %, by seed and number of samples
    },
    weight=4.0,
    split={"embedding_dim": 80, "equivariant_weight": 0.1, "equivariance_policy": "hue_only"},
)  # fmt: skip

CHAINS = Lesson(
    "chains",
    {"limit": 5_000, "epochs": 4, "batch_size": 128, "chunks": 8, "learning_rate": 3e-3},
    weight=30.0,
    split={"embedding_dim": 32, "equivariant_weight": 0.3},
)

LESSONS = (SHAPES, CHAINS)

# Without a probe of the paper's protocol, which is far from converged on so few samples.
MEASURES = Settings(images=1000, augmentations=6, probe="none")
