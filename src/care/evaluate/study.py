"""Every measurement of the paper, and those beside it, on one model."""

import dataclasses
import time
from dataclasses import asdict, dataclass
from typing import Any, get_args

import torch
from torch import nn

from care.data import Samples
from care.evaluate.attributes import retrieve, sense
from care.evaluate.effects.families import Watch
from care.evaluate.effects.rotations import rotate
from care.evaluate.evaluation import Evaluation
from care.evaluate.features.classes import ProbeOn, classify
from care.evaluate.features.probe import IMAGENET100, PAPER, Protocol
from care.evaluate.observer import Embed, Observer, Policy, frozen
from care.geometry import BilinearForm

PROTOCOLS = {"paper": PAPER, "imagenet100": IMAGENET100}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How thoroughly to look. The defaults are the paper's, on all test images.

    `probe` names the protocol of the linear probe; it is trained on "cached" features of the images as they are, on
    features of "augmented" images, or, as in the authors' program, with BatchNorm statistics "drifting" meanwhile.
    `logistic` is the penalty of an exact logistic regression, the probe's cross-check; None leaves it out. `forms` are
    bilinear forms in whose groups the head is looked at beside that of its own.
    """

    images: int | None = None
    augmentations: int = 20
    probe: str = "paper"
    probe_on: ProbeOn = "cached"
    probe_epochs: int | None = None
    learning_rates: tuple[float, ...] | None = None
    seeds: int = 5
    logistic: float | None = None
    forms: tuple[str, ...] = ()
    seed: int = 0

    def __post_init__(self) -> None:
        for name, options in (("probe", (*PROTOCOLS, "none")), ("probe_on", get_args(ProbeOn))):
            if getattr(self, name) not in options:
                raise ValueError(f"{name} must be one of {', '.join(options)}, got {getattr(self, name)}")
        if self.logistic is not None and not 0 < self.logistic < float("inf"):
            raise ValueError(f"logistic, a penalty, must be greater than 0 and finite, got {self.logistic}")
        if self.probe_on != "cached" and len(self.learning_rates or ()) > 1:
            raise ValueError(f"a probe on {self.probe_on} images takes one learning rate, got {self.learning_rates}")
        self.protocol()  # has checks of its own

    def protocol(self) -> Protocol | None:
        """The protocol of the linear probe with what else was set."""
        if self.probe == "none":
            return None
        protocol = PROTOCOLS[self.probe]
        changes: dict[str, Any] = {"seeds": tuple(range(self.seeds))}
        if self.learning_rates is not None:
            changes["learning_rates"] = self.learning_rates
        if self.probe_epochs is not None:
            falls = (round(epoch * self.probe_epochs / protocol.epochs) for epoch in protocol.milestones)
            changes |= {"epochs": self.probe_epochs, "milestones": tuple(falls)}
        return dataclasses.replace(protocol, **changes)


@dataclass(frozen=True, kw_only=True)
class Study:
    """A model, `embed`, with what it is evaluated on. `module` is what `embed` calls, if BatchNorm is to drift."""

    model: str
    embed: Embed
    train: Samples
    test: Samples
    policy: Policy
    policy_name: str
    form: BilinearForm
    device: torch.device
    module: nn.Module | None = None
    split: str = "test"
    batch_size: int | None = None

    def observer(self, samples: Samples) -> Observer:
        """The model looking at `samples`."""
        forms = {"embedding": self.form}  # what the loss was on; a backbone's features are looked at by their angles
        return Observer(self.embed, samples, self.policy, self.policy_name, self.device, self.batch_size, forms)


def evaluate_model(study: Study, settings: Settings, watch: Watch | None = None) -> Evaluation:
    """Class probes, the response to augmentations, and what the features still know of color and the like."""
    tell = watch or (lambda *words: None)
    images, started = min(settings.images or len(study.test), len(study.test)), time.perf_counter()
    bank, observer = study.observer(study.train), study.observer(study.test.limit(images))
    protocol, seed = settings.protocol(), settings.seed
    with frozen(study.module):
        still = observer.clean()
        parts = [
            classify(bank, observer, still, protocol, settings.probe_on, study.module, settings.logistic, seed, tell),
            rotate(observer, still, settings.augmentations, seed, tell, settings.forms),
            retrieve(observer, still, seed, tell),
            sense(observer, still, seed, tell),
        ]
    record = {"about": _about(study, settings, images), **{k: v for found, _ in parts for k, v in found.items()}}
    seconds = round(time.perf_counter() - started, 1)
    return Evaluation({**record, "seconds": seconds}, {k: v for _, arrays in parts for k, v in arrays.items()})


def _about(study: Study, settings: Settings, images: int) -> dict[str, Any]:
    about = {"model": study.model, "data": study.test.name, "split": study.split, "policy": study.policy_name}
    counts = {"test_images": images, "train_images": len(study.train)}
    chosen = {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(settings).items()}  # as JSON has it
    return {**about, **counts, **{k: v for k, v in chosen.items() if k != "images"}}
