"""Every measurement of the paper, and more, on one model."""

import dataclasses
import time
from dataclasses import asdict, dataclass
from typing import Any, get_args

import torch
from torch import nn

from care.augment import PointPolicy
from care.augment.naming import Policy
from care.data import Samples
from care.data.class_rank import rank_within_class
from care.evaluate.decoding.decode import evaluate_decoding
from care.evaluate.effects.rotations import evaluate_effects
from care.evaluate.embedder import EMBEDDING, Embed, Embedder
from care.evaluate.evaluation import ESTIMATORS, Evaluation
from care.evaluate.features.classification import Classifiers, ProbeOn, evaluate_classification
from care.evaluate.features.knn import NEIGHBORS, TEMPERATURE
from care.evaluate.features.probe import IMAGENET100, PAPER, Protocol
from care.evaluate.retrieval.color_jitter import evaluate_retrieval
from care.frozen import frozen
from care.geometry import BilinearForm
from care.progress import ProgressCallback, silent

PROTOCOLS = {"paper": PAPER, "imagenet100": IMAGENET100}
TRAIN_PER_IMAGE = 20  # training images per requested test image


@dataclass(frozen=True, kw_only=True)
class EvaluationSettings:
    """What to measure, and on how many images: by default on all test images. With `images`, only so many test images
    are used, and 20 times as many training images for classifiers.

    `logistic` is the tuned logistic regression. `probe` names the protocol of the linear probe. `probe_on` selects its
    training features: of "clean" images, computed once; of random "crops" and flips, or of "augmented" images, computed
    anew in every epoch; or, as in the authors' program, of augmented images with BatchNorm in training mode
    ("bn-train"), so that its statistics change meanwhile. `neighbors` are the k of kNN, `temperature` is its τ.
    `forms` are further bilinear forms in whose geometry the embedding is measured. `projections` are numbers of
    principal and random directions in which the embedding is also measured, as controls of these dimensions.
    """

    images: int | None = None
    augmentations: int = 20
    probe: str = "paper"
    probe_on: ProbeOn = "clean"
    probe_epochs: int | None = None
    learning_rates: tuple[float, ...] | None = None
    seeds: int = 5
    logistic: bool = True
    neighbors: tuple[int, ...] = NEIGHBORS
    temperature: float = TEMPERATURE
    forms: tuple[str, ...] = ()
    projections: tuple[int, ...] = ()
    seed: int = 0

    def __post_init__(self) -> None:
        for name, options in (("probe", (*PROTOCOLS, "none")), ("probe_on", get_args(ProbeOn))):
            if getattr(self, name) not in options:
                raise ValueError(f"{name} must be one of {', '.join(options)}, got {getattr(self, name)}")
        if min(self.neighbors, default=0) < 1 or len(set(self.neighbors)) < len(self.neighbors):
            raise ValueError(f"neighbors must be different numbers, each at least 1, got {list(self.neighbors)}")
        if not 0 < self.temperature < float("inf"):
            raise ValueError(f"temperature must be greater than 0 and finite, got {self.temperature}")
        if min(self.projections, default=1) < 1:
            raise ValueError(f"each projection must have at least 1 direction, got {list(self.projections)}")
        if self.probe_on != "clean" and len(self.learning_rates or ()) > 1:
            raise ValueError(f"a probe on augmented images takes one learning rate, got {self.learning_rates}")
        self.protocol()  # raises ValueError for an invalid protocol

    @property
    def fits_classifiers(self) -> bool:
        """Whether any classifier is fitted to images of the split "train"."""
        return self.probe != "none" or self.logistic

    def protocol(self) -> Protocol | None:
        """The protocol of the linear probe, with the seeds, learning rates and epochs of these settings."""
        if self.probe == "none":
            return None
        protocol = PROTOCOLS[self.probe]
        changes: dict[str, Any] = {"seeds": tuple(range(self.seeds))}
        if self.learning_rates is not None:
            changes["learning_rates"] = self.learning_rates
        if self.probe_epochs is not None:
            falls = {round(epoch * self.probe_epochs / protocol.epochs) for epoch in protocol.milestones}
            inside = sorted(falls & set(range(1, self.probe_epochs)))  # few epochs have no room for all of them
            changes |= {"epochs": self.probe_epochs, "milestones": tuple(inside)}
        return dataclasses.replace(protocol, **changes)

    def classifiers(self, module: nn.Module | None) -> Classifiers:
        """Which classifiers these settings ask for; BatchNorm of `module` may be in training mode for a probe."""
        nearest = self.neighbors, self.temperature
        return Classifiers(self.logistic, self.protocol(), self.probe_on, module, *nearest, self.seed)


@dataclass(frozen=True, kw_only=True)
class EvaluationSetup:
    """A model, `embed`, and its evaluation data. `module` is the network in `embed`; a "bn-train" probe needs it.

    Classifiers are fitted to `train`; without it, there is no kNN either.
    """

    model: str
    embed: Embed
    train: Samples | None
    test: Samples
    policy: Policy
    policy_name: str
    form: BilinearForm
    device: torch.device
    module: nn.Module | None = None
    split: str = "test"
    batch_size: int | None = None

    def check(self, settings: EvaluationSettings) -> None:
        """ValueError if these settings need more than this setup has."""
        if settings.fits_classifiers and self.train is None:
            raise ValueError("a probe needs training samples, and there are none: choose probe none and no logistic")
        if settings.probe_on == "crops" and settings.probe != "none" and isinstance(self.policy, PointPolicy):
            raise ValueError(f"{self.test.name} holds point clouds, which have no crops: choose probe_on augmented")

    def note_on_neighbors(self, settings: EvaluationSettings) -> str | None:
        """A sentence about the k of kNN that exceed the number of labeled training images; None if none does."""
        labels = torch.tensor([]) if self.train is None else _training_images(self.train, settings.images).labels
        labels = labels[labels >= 0]
        n, above = len(labels), [str(k) for k in settings.neighbors if k > len(labels)]
        if not above or len(labels.unique()) < 2:  # of one class there is no kNN at all
            return None
        used = "" if len(above) < len(settings.neighbors) else f", and k = {n} takes its place"
        return f"kNN with k = {', '.join(above)} is left out: only {n} training images have a label{used}"

    def embedder(self, samples: Samples) -> Embedder:
        """An embedder of `samples` by the model."""
        forms = {EMBEDDING: self.form}  # all other outputs are measured on the sphere, by their angles
        return Embedder(self.embed, samples, self.policy, self.policy_name, self.device, self.batch_size, forms)


def evaluate_model(
    setup: EvaluationSetup, settings: EvaluationSettings, progress: ProgressCallback = silent
) -> Evaluation:
    """Evaluate classification, effects of augmentations, retrieval, and decoding from features."""
    images, started = min(settings.images or len(setup.test), len(setup.test)), time.perf_counter()
    setup.check(settings)
    train = None if setup.train is None else setup.embedder(_training_images(setup.train, settings.images))
    embedder = setup.embedder(setup.test.limit(images))
    classifiers, seed = settings.classifiers(setup.module), settings.seed
    with frozen(setup.module):
        clean = embedder.clean()
        parts = [
            evaluate_classification(train, embedder, clean, classifiers, progress),
            evaluate_effects(
                embedder, clean, settings.augmentations, seed, progress, settings.forms, settings.projections
            ),
            evaluate_retrieval(embedder, clean, seed, progress),
            evaluate_decoding(embedder, clean, seed, progress),
        ]
    record = {
        "about": _about(setup, settings, images, train),
        **{k: v for found, _ in parts for k, v in found.items()},
    }
    seconds = round(time.perf_counter() - started, 1)
    return Evaluation({**record, "seconds": seconds}, {k: v for _, arrays in parts for k, v in arrays.items()})


def _training_images(train: Samples, images: int | None) -> Samples:
    """All training samples, or enough for `images` test images: the first of every class, in proportion."""
    share = 1.0 if images is None else TRAIN_PER_IMAGE * images / len(train)
    if share >= 1:
        return train
    _, kind, count = train.labels.unique(return_inverse=True, return_counts=True)
    return train.subset((rank_within_class(train.labels) < share * count[kind]).nonzero()[:, 0])


def _about(setup: EvaluationSetup, settings: EvaluationSettings, images: int, train: Embedder | None) -> dict[str, Any]:
    labels = torch.tensor([]) if train is None else train.samples.labels
    about = {"model": setup.model, "data": setup.test.name, "split": setup.split, "policy": setup.policy_name}
    counts = {"test_images": images, "train_images": len(labels)}
    counts |= {"train_classes": len(labels[labels >= 0].unique())}
    chosen = {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(settings).items()}  # as JSON has it
    return {"estimators": ESTIMATORS, **about, **counts, **{k: v for k, v in chosen.items() if k != "images"}}
