"""Several models with the clean views that they take, checked on the data sets before any image is embedded."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from care.cli.evaluation_setup import Asked, check_setup, config_of
from care.evaluate import Downstream
from care.evaluate.embedder import Policy, features_of
from care.objective import policy_for
from care.pretrained import PretrainedModel
from care.tables import visible


@dataclass(frozen=True, eq=False)
class FrozenModel:
    """A model, its name in tables and figures, and the policy that makes its clean views."""

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


@dataclass(frozen=True, eq=False)
class Wanted:
    """A model that was asked for, the name of its policy, and the model itself, if it is in a file."""

    asked: Asked
    policy: str
    in_file: PretrainedModel | None


def wanted_models(asked: Sequence[Asked]) -> list[Wanted]:
    """Check what can be checked without the data; ValueError if a model or a policy does not exist."""
    found = []
    for one in asked:
        model, config = one.load_file(), config_of(one.model)
        policy = one.policy or (config.measured_policy if config else "simclr")
        policy_for(policy, one.size)  # ValueError if there is no such policy
        found.append(Wanted(one, policy, model))
    return found


def frozen_models(wanted: Sequence[Wanted], downstreams: Sequence[Downstream]) -> list[FrozenModel]:
    """The models, on their device; ValueError if one does not take the images of one of the data sets.

    timm weights may need a download, so they are loaded here, after everything else is checked.
    """
    found = []
    for one in wanted:
        model = one.in_file or one.asked.load()
        views = policy_for(one.policy, one.asked.size or model.size)
        for downstream in downstreams:
            check_setup(model, downstream.test, views, one.policy, one.asked.on)
        found.append(FrozenModel(model.name, model, views))
    return _with_distinct_names(found, [one.asked.model for one in wanted])


def _with_distinct_names(models: Sequence[FrozenModel], given: Sequence[str]) -> list[FrozenModel]:
    """Rename models of the same name to what the user gave."""
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
