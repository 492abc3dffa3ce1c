"""What is measured after an epoch: does it learn, and do augmentations act as rotations?"""

import math
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from care import geometry
from care.augment import ImagePolicy, PointPolicy
from care.data import Samples
from care.evaluate import Observer, knn_predict
from care.evaluate.effects.effect import rotation_group
from care.evaluate.observer import EMBEDDING, EUCLIDEAN, Embed, frozen
from care.models import Encoder
from care.randomness import generator_for

AUGMENTATIONS = 4
TEST_SAMPLES, BANK_SAMPLES = 1000, 5000
# The share of the time of training that measuring may take, and what a pass with gradient costs in passes without.
SHARE, WITH_GRADIENT = 0.1, 3.0


class Stopped(Exception):
    """The measuring was asked to stop."""


@dataclass(frozen=True)
class Monitor:
    """Fixed samples and fixed augmentations, the same after every epoch of every run with the same seed.

    Of a split embedding, the equivariant part alone is measured: its last `equivariant_dim` coordinates. At most `most`
    samples are measured on, and as many compared with. When `stop` is true, measuring ends with `Stopped`.
    """

    bank: Samples
    test: Samples
    policy: ImagePolicy | PointPolicy
    form: geometry.BilinearForm
    seed: int
    equivariant_dim: int = 0
    most: int | None = None
    stop: Callable[[], bool] = lambda: False

    def every(self, passes: float) -> int:
        """After how many epochs, of so many passes of a picture with gradient each, measuring takes a tenth at most."""
        n = len(self._tested)
        ours = (1 + AUGMENTATIONS) * n + (n + len(self._compared) if self._labeled else 0)
        return max(1, math.ceil(ours / (SHARE * WITH_GRADIENT * passes)))

    @torch.no_grad()
    def measure(self, encoder: Encoder, device: torch.device) -> dict[str, float | None]:
        """The measures by name; None where there is nothing to measure (no labels, an invariant encoder)."""
        with frozen(encoder), _as_it_is():
            F, views = self._views(encoder, device)
            knn = self._knn(encoder, device)
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
            "knn": knn,
        }
        if self.form.name == "symplectic":
            found["strength"] = geometry.symplectic_strength(F)
        return {name: _number(value) for name, value in found.items()}

    def _views(self, encoder: Encoder, device: torch.device) -> tuple[Float[Tensor, "n d"], Float[Tensor, "a n d"]]:
        """f(x) and f(a(x)) of the test samples under each of the fixed augmentations."""
        embed = lambda x: {EMBEDDING: encoder(x)[:, -self.equivariant_dim :]}  # noqa: E731
        observer = self._observer(embed, self._tested, device)
        generator = generator_for("cpu", self.seed, "monitor")
        drawn = self.policy.sample(AUGMENTATIONS, self.test.source, generator)  # type: ignore[arg-type]
        found = [observer.clean(), *(observer.augmented(drawn[i]) for i in range(AUGMENTATIONS))]
        F, *views = (observer.points(embeddings)[EMBEDDING] for embeddings in found)
        return F, torch.stack(views)

    def _knn(self, encoder: Encoder, device: torch.device) -> Tensor | None:
        if not self._labeled:
            return None
        bank, test = self._compared, self._tested
        observers = (self._observer(lambda x: {"features": encoder.features(x)}, s, device) for s in (bank, test))
        features, queries = (observer.clean()["features"] for observer in observers)
        return (knn_predict(features, bank.labels.to(device), queries) == test.labels.to(device)).double().mean()

    @property
    def _tested(self) -> Samples:
        """What is measured."""
        return self.test.limit(min(TEST_SAMPLES, len(self.test), self.most or TEST_SAMPLES))

    @property
    def _compared(self) -> Samples:
        """Among which neighbors are looked for."""
        return self.bank.limit(min(BANK_SAMPLES, len(self.bank), self.most or BANK_SAMPLES))

    @property
    def _labeled(self) -> bool:
        return bool(self._compared.labels.min() >= 0 and self._tested.labels.min() >= 0)

    def _observer(self, embed: Embed, samples: Samples, device: torch.device) -> Observer:
        """Batches are as large as pictures of their size allow."""

        def or_stop(x: Tensor) -> Mapping[str, Tensor]:
            if self.stop():
                raise Stopped
            return embed(x)

        return Observer(or_stop, samples, self.policy, "", device, forms={EMBEDDING: self.form})


def _as_it_is() -> AbstractContextManager[object]:
    """Inside, what is compiled runs uncompiled: for other batches and other modes it would be compiled again."""
    has_compiler = "torch._dynamo" in sys.modules  # which takes seconds to load
    return torch.compiler.set_stance("force_eager") if has_compiler else nullcontext()


def _number(value: Tensor | None) -> float | None:
    return None if value is None or not torch.isfinite(value) else value.item()
