"""Robustness: a classifier fitted to clean images and tested on corrupted ones."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor

from care.augment import ImagePolicy, policy_named
from care.evaluate.embedder import device_of
from care.evaluate.robustness.corruptions import CORRUPTIONS, corrupted, noisy
from care.evaluate.transfer.classifier import fit_classifier
from care.evaluate.transfer.downstream import Downstream, load_downstream
from care.evaluate.transfer.embedded import Model, embed_downstream, embedder_of
from care.frozen import frozen
from care.progress import ProgressCallback, silent
from care.tables import text_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Robustness:
    """Top-1 accuracies of one model: on clean test images, and for each corruption at every strength."""

    model: str
    data: str
    clean: float
    curves: Mapping[str, tuple[float, ...]]

    @property
    def mean(self) -> float:
        """The mean over corruptions and strengths."""
        return fmean(fmean(curve) for curve in self.curves.values())

    def table(self) -> str:
        """The accuracies as text."""
        return robustness_table({self.model: self})

    def __str__(self) -> str:
        return self.table()

    def to_json(self) -> dict[str, Any]:
        """Everything, ready for `json.dump`."""
        curves = {
            name: {"strengths": list(CORRUPTIONS[name]), "top1": list(curve)} for name, curve in self.curves.items()
        }
        return {"data": self.data, "clean": self.clean, "mean": self.mean, "corruptions": curves}


def measure_robustness(
    model: Model,
    data: str | Path | Downstream,
    policy: ImagePolicy | str = "simclr",
    *,
    name: str = "model",
    seed: int = 0,
    batch_size: int | None = None,
    device: torch.device | str | None = None,
    progress: ProgressCallback = silent,
) -> Robustness:
    """The accuracy that a logistic regression on the frozen features `model(images)` loses on corrupted images.

    The regression is fitted once, to the clean training images, and corruptions are applied to the test images. All
    else is as in `measure_transfer`.
    """
    downstream = data if isinstance(data, Downstream) else load_downstream(data)
    check_images(downstream)
    views = policy_named(policy) if isinstance(policy, str) else policy
    where = torch.device(device) if device is not None else device_of(model, downstream.train)
    with frozen(model):
        tick = partial(progress, f"{name}: features")
        embedded = embed_downstream(model, downstream, views, where, seed, batch_size, tick)
        tick = partial(progress, f"{name}: logistic regression")
        classifier = fit_classifier(embedded.features, embedded.labels, embedded.heldout, tick)

        def accuracy(features: Float[Tensor, "n d"]) -> float:
            return (classifier.predict(features) == embedded.test_labels).double().mean().item()

        curves: dict[str, tuple[float, ...]] = {}
        for i, (corruption, strengths) in enumerate(CORRUPTIONS.items(), start=1):
            seen = partial(_features, model, downstream, views, where, batch_size, seed, corruption)
            curves[corruption] = tuple(accuracy(seen(strength)) for strength in strengths)
            progress(f"{name}: corruptions", i, len(CORRUPTIONS))
    return Robustness(name, downstream.name, accuracy(embedded.test_features), curves)


def check_images(downstream: Downstream) -> None:
    """ValueError for point clouds, which have no colors to corrupt."""
    if len(downstream.test.input_shape) == 1:
        raise ValueError(f"corruptions are for images, and {downstream.name} holds point clouds: choose other data")


def _features(
    model: Model,
    downstream: Downstream,
    policy: ImagePolicy,
    device: torch.device,
    batch_size: int | None,
    seed: int,
    corruption: str,
    strength: float,
) -> Float[Tensor, "n d"]:
    """The features of the corrupted test images."""
    if corruption == "noise":
        model = noisy(model, strength, policy.size, device, seed)
    clean = policy.unchanged(1, downstream.test.input_shape)  # type: ignore[arg-type]
    embedder = embedder_of(model, downstream.test, policy, device, batch_size)
    return embedder.augmented(corrupted(clean, corruption, strength))["features"]


def robustness_table(found: Mapping[str, Robustness]) -> str:
    """By model: accuracy on clean images, the mean over all corruptions, and each corruption's mean over strengths."""
    first, models = next(iter(found.values())), found.values()
    accuracies = {"clean": [m.clean for m in models], "corrupted, mean": [m.mean for m in models]}
    accuracies |= {f"  {name}": [fmean(m.curves[name]) for m in models] for name in first.curves}
    rows = [[row, *(f"{100 * accuracy:.2f} %" for accuracy in of_models)] for row, of_models in accuracies.items()]
    return text_table(f"top-1 accuracy on {first.data}, means over five strengths", ["", *found], rows)


def robustness_figure_of(found: Mapping[str, Robustness]) -> "Figure":
    """The curves over strengths as a picture."""
    from care.report import robustness_figure  # matplotlib takes a while to load

    panels = {
        name: (strengths, {model: (measured.clean, *measured.curves[name]) for model, measured in found.items()})
        for name, strengths in CORRUPTIONS.items()
    }
    return robustness_figure(panels)
