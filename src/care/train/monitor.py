"""What is measured after an epoch: does it learn, and do augmentations act as rotations?"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from care import geometry
from care.augment import ImagePolicy, Parameters, PointPolicy, apply
from care.data import Samples, batches
from care.evaluate import knn_predict
from care.models import Encoder
from care.randomness import generator_for

AUGMENTATIONS = 4
TEST_SAMPLES, BANK_SAMPLES, BATCH = 1000, 5000, 500


@dataclass(frozen=True)
class Monitor:
    """Fixed samples and fixed augmentations, the same after every epoch of every run with the same seed."""

    bank: Samples
    test: Samples
    policy: ImagePolicy | PointPolicy
    form: geometry.BilinearForm
    seed: int

    @torch.no_grad()
    def measure(self, encoder: Encoder, device: torch.device) -> dict[str, float | None]:
        """The measures by name; None where there is nothing to measure (no labels, an encoder that does not move)."""
        training, _ = encoder.training, encoder.eval()
        F, views = self._views(encoder, device)
        group = "SO" if self.form.group == "O" else self.form.group
        angles = F @ F.mT - torch.eye(len(F), device=F.device)
        found = {
            "positive_cosine": (views[0] * views[1]).sum(1).mean(),
            "negative_cosine": angles.sum() / (len(F) * (len(F) - 1)),
            "invariance": geometry.invariance(F, views).mean(),
            "gram_defect": geometry.gram_defect(F, views, self.form).mean(),
            "gamma": geometry.relative_equivariance(F, views).mean(),
            "heldout_ratio": geometry.heldout_ratio(F, views, group).mean(),
            "knn": self._knn(encoder, device),
        }
        encoder.train(training)
        return {name: _number(value) for name, value in found.items()}

    def _views(self, encoder: Encoder, device: torch.device) -> tuple[Float[Tensor, "n d"], Float[Tensor, "a n d"]]:
        """f(x) and f(a(x)) of the test samples under each of the fixed augmentations."""
        inputs = self.test.limit(min(TEST_SAMPLES, len(self.test)))
        generator = generator_for("cpu", self.seed, "monitor")
        drawn = self.policy.sample(AUGMENTATIONS, inputs.source, generator)  # type: ignore[arg-type]
        looks = [self.policy.unchanged(1, inputs.source), *(drawn[i] for i in range(AUGMENTATIONS))]  # type: ignore[arg-type]
        F, *views = (self._look(encoder, inputs, look, device) for look in looks)
        return F, torch.stack(views)

    def _look(self, encoder: Encoder, inputs: Samples, look: Parameters, device: torch.device) -> Float[Tensor, "n d"]:
        """The embeddings of all inputs under one augmentation."""
        # Not encoder(…), which may be compiled: for other batches and other modes it would be compiled again.
        z = [encoder.forward(apply(x, look.to(device).repeat(len(x)))).float() for x in _in_batches(inputs, device)]
        return self.form.embed(torch.cat(z))

    def _knn(self, encoder: Encoder, device: torch.device) -> Tensor | None:
        bank = self.bank.limit(min(BANK_SAMPLES, len(self.bank)))
        test = self.test.limit(min(TEST_SAMPLES, len(self.test)))
        if bank.labels.min() < 0 or test.labels.min() < 0:
            return None
        features = [self._features(encoder, samples, device) for samples in (bank, test)]
        right = knn_predict(features[0], bank.labels.to(device), features[1]) == test.labels.to(device)
        return right.double().mean()

    def _features(self, encoder: Encoder, samples: Samples, device: torch.device) -> Float[Tensor, "n features"]:
        still = self.policy.unchanged(1, samples.source).to(device)  # type: ignore[arg-type]
        found = [encoder.features(apply(x, still.repeat(len(x)))).float() for x in _in_batches(samples, device)]
        return torch.cat(found)


def _in_batches(samples: Samples, device: torch.device) -> list[Tensor]:
    return list(batches(samples, torch.arange(len(samples)).split(BATCH), device))


def _number(value: Tensor | None) -> float | None:
    return None if value is None or not torch.isfinite(value) else value.item()
