"""Measures after an epoch: does the encoder learn, do augmentations act as rotations, has the embedding collapsed?"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from care import geometry
from care.augment.naming import Policy
from care.data import Samples
from care.evaluate import Embedder, knn_predict
from care.evaluate.effects.effect import rotation_group
from care.evaluate.embedder import BACKBONE, EMBEDDING, EUCLIDEAN, Embed, Embeddings
from care.frozen import frozen
from care.models import Encoder
from care.randomness import generator_for

WHOLE = "whole"  # the whole output of the head; its last coordinates may be the equivariant part
AUGMENTATIONS = 4
TEST_SAMPLES, TRAIN_SAMPLES = 1000, 5000
# The share of the training time that measuring may take, and the cost of a pass with gradient in passes without.
SHARE, WITH_GRADIENT = 0.1, 3.0


class Stopped(Exception):
    """Measuring was asked to stop."""


@dataclass(frozen=True)
class Monitor:
    """Fixed samples and fixed augmentations, the same after every epoch of every run with the same seed.

    Of a split embedding, only the equivariant part is measured, its last `equivariant_dim` coordinates; the ranks are
    those of the whole output of the head. `most` limits the samples that are measured, and the
    training samples in which kNN looks for neighbors.
    When `stop()` is true, measuring raises `Stopped`.
    """

    train: Samples
    test: Samples
    policy: Policy
    form: geometry.BilinearForm
    seed: int
    equivariant_dim: int = 0
    most: int | None = None
    stop: Callable[[], bool] = lambda: False

    def every(self, passes: float) -> int:
        """The least N such that measuring every N epochs takes at most a tenth of the training time.

        `passes` are the passes of a picture with gradient in an epoch.
        """
        n = len(self._tested)
        ours = (1 + AUGMENTATIONS) * n + (len(self._compared) if self._labeled else 0)
        return max(1, math.ceil(ours / (SHARE * WITH_GRADIENT * passes)))

    @torch.no_grad()
    def measure(self, encoder: Encoder, device: torch.device) -> dict[str, float | None]:
        """The measures by name; None where there is nothing to measure (no labels, an invariant encoder)."""
        with frozen(encoder):
            clean, F, views = self._views(encoder, device)
            knn = self._knn(encoder, clean[BACKBONE], device)
        group = rotation_group(self.form)
        directions = EUCLIDEAN.embed(F)
        angles = directions @ directions.mT - torch.eye(len(F), device=F.device)
        found = {
            "positive_cosine": torch.nn.functional.cosine_similarity(views[0], views[1]).mean(),
            "negative_cosine": angles.sum() / (len(F) * (len(F) - 1)),
            "displacement": geometry.displacement(F, views, self.form).mean(),
            "gram_error": geometry.gram_error(F, views, self.form).mean(),
            "gamma": geometry.relative_equivariance(F, views, form=self.form).mean(),
            "heldout_ratio": geometry.heldout_ratio(F, views, group).mean(),
            "rankme": geometry.rankme(clean[WHOLE]),
            "backbone_rankme": geometry.rankme(clean[BACKBONE]),
            "effective_rank": geometry.effective_rank(geometry.spectrum(self.form.embed(clean[WHOLE]))),
            "alignment": geometry.alignment(F, views).mean(),
            "gaussian_uniformity": geometry.gaussian_uniformity(F),
            "knn": knn,
        }
        if self.form.name == "symplectic":
            found["strength"] = geometry.symplectic_strength(F)
        return {name: _number(value) for name, value in found.items()}

    def _views(
        self, encoder: Encoder, device: torch.device
    ) -> tuple[Embeddings, Float[Tensor, "n d"], Float[Tensor, "a n d"]]:
        """All clean outputs for the test samples, f(x), and f(a(x)) under each of the fixed augmentations."""

        def embed(x: Tensor) -> Mapping[str, Tensor]:
            features, z = encoder.encode(x)
            return {EMBEDDING: z[:, -self.equivariant_dim :], WHOLE: z, BACKBONE: features}

        embedder = self._embedder(embed, self._tested, device)
        generator = generator_for("cpu", self.seed, "monitor")
        drawn = self.policy.sample(AUGMENTATIONS, self.test.input_shape, generator)  # type: ignore[arg-type]
        found = [embedder.clean(), *(embedder.augmented(drawn[i]) for i in range(AUGMENTATIONS))]
        F, *views = (self.form.embed(embeddings[EMBEDDING]) for embeddings in found)
        return found[0], F, torch.stack(views)

    def _knn(self, encoder: Encoder, queries: Float[Tensor, "n d"], device: torch.device) -> Tensor | None:
        if not self._labeled:
            return None
        train, labels = self._compared, self._tested.labels.to(device)
        features = self._embedder(lambda x: {BACKBONE: encoder.features(x)}, train, device).clean()[BACKBONE]
        return (knn_predict(features, train.labels.to(device), queries) == labels).double().mean()

    @property
    def _tested(self) -> Samples:
        """The held-out samples that are measured."""
        return self.test.limit(min(TEST_SAMPLES, len(self.test), self.most or TEST_SAMPLES))

    @property
    def _compared(self) -> Samples:
        """The training samples in which kNN looks for neighbors."""
        return self.train.limit(min(TRAIN_SAMPLES, len(self.train), self.most or TRAIN_SAMPLES))

    @property
    def _labeled(self) -> bool:
        """Whether kNN says anything: all have a class, and there is more than one."""
        labels = self._compared.labels
        return bool(0 <= labels.min() < labels.max() and self._tested.labels.min() >= 0)

    def _embedder(self, embed: Embed, samples: Samples, device: torch.device) -> Embedder:
        """An embedder that checks `stop` before every batch."""

        def or_stop(x: Tensor) -> Mapping[str, Tensor]:
            if self.stop():
                raise Stopped
            return embed(x)

        return Embedder(or_stop, samples, self.policy, "", device)


def _number(value: Tensor | None) -> float | None:
    return None if value is None or not torch.isfinite(value) else value.item()
