"""Whether a model, samples and a policy go together: asked before anything is measured."""

import torch

from care.augment import PointPolicy, apply
from care.data import Samples
from care.evaluate.observer import Policy
from care.subjects import Subject

FEWEST = 20  # images: with fewer, the halves that rotations are fitted and tested on say nothing


def check_study(subject: Subject, samples: Samples, policy: Policy, policy_name: str, device: torch.device) -> None:
    """ValueError if there are too few samples, if the policy is for others, or if the model does not take the views."""
    if len(samples) < FEWEST:
        raise ValueError(f"{samples.name} has {len(samples)} samples in this split: at least {FEWEST} are needed")
    clouds = len(samples.source) == 1
    if isinstance(policy, PointPolicy) != clouds:
        wanted = "rotations, since it holds point clouds" if clouds else "one for images"
        raise ValueError(f"the policy {policy_name} cannot augment {samples.name}: choose {wanted}")
    few = samples.limit(2)
    views = apply(few.inputs.cpu(), policy.unchanged(2, few.source))  # type: ignore[arg-type]
    subject.check(views.to(device))
