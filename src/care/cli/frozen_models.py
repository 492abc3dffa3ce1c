"""Several models with the clean views that they take, checked on the data sets before any image is embedded."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from care.cli.studies import Asked, check_study, config_of
from care.evaluate import Downstream
from care.evaluate.observer import Policy, features_of
from care.objective import policy_for
from care.pretrained import PretrainedModel
from care.tables import visible


@dataclass(frozen=True, eq=False)
class FrozenModel:
    """A model, what it is called here, and the policy whose clean views it is given."""

    name: str
    model: PretrainedModel
    policy: Policy

    def features(self, images: torch.Tensor) -> torch.Tensor:
        """The output of the backbone."""
        return features_of(self.model.embed(images))

    @property
    def word(self) -> str:
        """The name, as part of the name of a folder."""
        return re.sub(r"\W+", "-", self.name).strip("-")


def frozen_models(asked: Sequence[Asked], downstreams: Sequence[Downstream]) -> list[FrozenModel]:
    """The models, on their device; ValueError if one does not take the images of one of the data sets.

    Weights of timm may have to be downloaded: they are loaded last.
    """
    policies = [_policy_name(one) for one in asked]
    files = [one.load_file() for one in asked]
    found = []
    for one, policy, file in zip(asked, policies, files, strict=True):
        model = file or one.load()
        views = policy_for(policy, one.size or model.size)
        for downstream in downstreams:
            check_study(model, downstream.test, views, policy, one.on)
        found.append(FrozenModel(model.name, model, views))
    return _with_distinct_names(found, [one.model for one in asked])


def _policy_name(asked: Asked) -> str:
    """What was asked for, or what a run is measured with; ValueError if there is no such policy."""
    config = config_of(asked.model)
    policy = asked.policy or (config.measured_policy if config else "simclr")
    policy_for(policy, asked.size)
    return policy


def _with_distinct_names(models: Sequence[FrozenModel], given: Sequence[str]) -> list[FrozenModel]:
    """Models of one name are called by what the user gave."""
    names = [one.name for one in models]
    called = [name if names.count(name) == 1 else visible(text) for name, text in zip(names, given, strict=True)]
    if len(set(called)) < len(called):
        raise ValueError("the same model was given twice: give different ones")
    return [FrozenModel(name, one.model, one.policy) for name, one in zip(called, models, strict=True)]


def data_of_runs(models: Sequence[str]) -> str:
    """The data set that all runs among the models were trained on; ValueError if there is none, or several."""
    trained_on = sorted({config.data for config in map(config_of, models) if config is not None})
    if len(trained_on) != 1:
        what = f"the runs were trained on {' and on '.join(trained_on)}" if trained_on else "these are no runs"
        raise ValueError(f"{what}: say what to test them on, --data NAME")
    return trained_on[0]
