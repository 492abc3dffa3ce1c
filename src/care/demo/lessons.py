"""What the demo trains, and how thoroughly it looks. Chosen on samples cut from train, with seeds 0 and 1."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from care.evaluate import Settings
from care.train import Config, default_config

APART = "CARE, turned apart"


@dataclass(frozen=True)
class Lesson:
    """A data set, the settings of all encoders that are trained on it, and the λ that makes CARE of them.

    `apart` are the settings of one more, in which the two losses have coordinates of their own.
    """

    data: str
    settings: Mapping[str, Any]
    weight: float
    apart: Mapping[str, Any] = field(default_factory=dict)

    def configs(self, seed: int) -> dict[str, Config]:
        """SimCLR, and the same with the equivariance loss, and with coordinates of its own."""
        shared = {"seed": seed, "device": "cpu", "schedule": "cosine", **self.settings}
        care = {"equivariance": self.weight}
        chosen = {"SimCLR": {}, "CARE": care} | ({APART: {**care, **self.apart}} if self.apart else {})
        return {name: default_config(self.data, **{**shared, **settings}) for name, settings in chosen.items()}


SHAPES = Lesson(
    "shapes",
    {
        "model": "small_resnet", "size": 24, "embedding": 64, "head_width": 256, "temperature": 0.2,
        "limit": 9_000, "epochs": 4, "batch_size": 128, "chunks": 4, "learning_rate": 3e-3,
        "warmup_epochs": 1,  # without it CARE's probe is anywhere from 41 to 51 %, by seed and number of samples
    },
    weight=4.0,
    apart={"embedding": 80, "turned": 16, "turning": 0.1, "chunk_policy": "hue_only"},
)  # fmt: skip

CHAINS = Lesson(
    "chains",
    {"limit": 5_000, "epochs": 4, "batch_size": 128, "chunks": 8, "learning_rate": 3e-3},
    weight=30.0,
    apart={"embedding": 32, "turned": 16, "turning": 0.3},
)

LESSONS = (SHAPES, CHAINS)

# The exact logistic regression, because a probe of the paper's protocol is far from converged on so few samples.
MEASURES = Settings(images=1000, augmentations=6, probe="none", logistic=1.0)
