"""The data and the policy that a model is measured with, checked before anything is measured."""

from pathlib import Path

import torch

from care import data
from care.augment import PointPolicy, apply
from care.data import Samples
from care.data.registry import heldout_split
from care.evaluate.observer import Policy
from care.pretrained import PretrainedModel
from care.train import Config
from care.train.runs import load_trained

FEWEST = 20  # images: with fewer, the halves that rotations are fitted and tested on are too small


def config_of(model: str) -> Config | None:
    """The configuration of a run, which names its data; None for other models."""
    path = Path(model)
    if model.startswith("timm/"):
        return None
    return load_trained(path).config if path.is_dir() or path.suffix == ".safetensors" else None


def heldout_samples(config: Config | None, name: str, split: str | None) -> tuple[Samples, str]:
    """(the samples to measure on, the name of their split): the validation samples of a run that cut some off."""
    if config is not None and is_cut(config, name, split):
        return data.load(name, config.split).split(config.validation)[1], "validation"
    chosen = split or heldout_split(name)
    return data.load(name, chosen), chosen


def is_cut(config: Config, name: str, split: str | None) -> bool:
    """Whether `name` and `split` mean the validation samples that the run cut off its training split."""
    return name == config.data and config.validation > 0 and split in (None, "validation")


def check_study(
    model: PretrainedModel, samples: Samples, policy: Policy, policy_name: str, device: torch.device
) -> None:
    """ValueError if there are too few samples, if the policy is for others, or if the model does not take the views."""
    if len(samples) < FEWEST:
        raise ValueError(f"{samples.name} has {len(samples)} samples in this split: at least {FEWEST} are needed")
    clouds = len(samples.source) == 1
    if isinstance(policy, PointPolicy) != clouds:
        wanted = "rotations, since it holds point clouds" if clouds else "one for images"
        raise ValueError(f"the policy {policy_name} cannot augment {samples.name}: choose {wanted}")
    few = samples.limit(2)
    views = apply(few.inputs.cpu(), policy.unchanged(2, few.source))  # type: ignore[arg-type]
    model.check(views.to(device))
