"""What is measured after an epoch: does it learn, and do augmentations act as rotations?"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from care import geometry
from care.augment import ImagePolicy, PointPolicy
from care.data import Samples
from care.evaluate import Observer, knn_predict
from care.evaluate.effects.effect import rotations
from care.evaluate.observer import EUCLIDEAN, Embed, frozen
from care.models import Encoder
from care.randomness import generator_for

AUGMENTATIONS = 4
TEST_SAMPLES, BANK_SAMPLES, BATCH = 1000, 5000, 500


@dataclass(frozen=True)
class Monitor:
    """Fixed samples and fixed augmentations, the same after every epoch of every run with the same seed.

    Where the last `turned` coordinates are those that augmentations turn, these alone are looked at.
    """

    bank: Samples
    test: Samples
    policy: ImagePolicy | PointPolicy
    form: geometry.BilinearForm
    seed: int
    turned: int = 0

    @torch.no_grad()
    def measure(self, encoder: Encoder, device: torch.device) -> dict[str, float | None]:
        """The measures by name; None where there is nothing to measure (no labels, an encoder that does not move)."""
        with frozen(encoder):
            F, views = self._views(encoder, device)
            knn = self._knn(encoder, device)
        group = rotations(self.form)
        directions = EUCLIDEAN.embed(F)
        angles = directions @ directions.mT - torch.eye(len(F), device=F.device)
        found = {
            "positive_cosine": torch.nn.functional.cosine_similarity(views[0], views[1]).mean(),
            "negative_cosine": angles.sum() / (len(F) * (len(F) - 1)),
            "invariance": geometry.displacement(F, views, self.form).mean(),
            "gram_defect": geometry.gram_defect(F, views, self.form).mean(),
            "gamma": geometry.relative_equivariance(F, views, form=self.form).mean(),
            "heldout_ratio": geometry.heldout_ratio(F, views, group).mean(),
            "knn": knn,
        }
        if self.form.name == "symplectic":
            found["strength"] = geometry.symplectic_strength(F)
        return {name: _number(value) for name, value in found.items()}

    def _views(self, encoder: Encoder, device: torch.device) -> tuple[Float[Tensor, "n d"], Float[Tensor, "a n d"]]:
        """f(x) and f(a(x)) of the test samples under each of the fixed augmentations."""
        # Not encoder(…), which may be compiled: for other batches and other modes it would be compiled again.
        embed, test = (lambda x: {"head": encoder.forward(x)[:, -self.turned :]}), self.test.limit(self._tested)
        observer = self._observer(embed, test, device)
        generator = generator_for("cpu", self.seed, "monitor")
        drawn = self.policy.sample(AUGMENTATIONS, self.test.source, generator)  # type: ignore[arg-type]
        looks = [observer.clean(), *(observer.augmented(drawn[i]) for i in range(AUGMENTATIONS))]
        F, *views = (observer.points(look)["head"] for look in looks)
        return F, torch.stack(views)

    def _knn(self, encoder: Encoder, device: torch.device) -> Tensor | None:
        bank, test = self.bank.limit(min(BANK_SAMPLES, len(self.bank))), self.test.limit(self._tested)
        if bank.labels.min() < 0 or test.labels.min() < 0:
            return None
        looks = (self._observer(lambda x: {"features": encoder.features(x)}, s, device).clean() for s in (bank, test))
        features, queries = (look["features"] for look in looks)
        return (knn_predict(features, bank.labels.to(device), queries) == test.labels.to(device)).double().mean()

    @property
    def _tested(self) -> int:
        return min(TEST_SAMPLES, len(self.test))

    def _observer(self, embed: Embed, samples: Samples, device: torch.device) -> Observer:
        return Observer(embed, samples, self.policy, "", device, BATCH, {"head": self.form})


def _number(value: Tensor | None) -> float | None:
    return None if value is None or not torch.isfinite(value) else value.item()
