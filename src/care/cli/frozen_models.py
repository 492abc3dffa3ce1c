"""Several models with the clean views that they take, checked on the data sets before any image is embedded."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch

from care.augment.naming import Policy
from care.cli.evaluation_setup import ModelOptions, config_of, distinct_names, policy_name, views_for
from care.evaluate import Downstream
from care.evaluate.embedder import features_of
from care.pretrained import PretrainedModel


@dataclass(frozen=True, eq=False)
class FrozenModel:
    """A model as a function of images, its name in tables and figures, and the policy that makes its clean views."""

    name: str
    features: Callable[[torch.Tensor], torch.Tensor]
    policy: Policy

    @property
    def folder_name(self) -> str:
        """The name without characters that a folder should not have."""
        return re.sub(r"\W+", "-", self.name).strip("-")


@dataclass(frozen=True, eq=False)
class RequestedModel:
    """A model that was asked for, the name of its policy, and the model itself, if it is in a file."""

    options: ModelOptions
    policy: str
    in_file: PretrainedModel | None


def requested_models(options: Sequence[ModelOptions]) -> list[RequestedModel]:
    """Check what can be checked without the data; ValueError if a model or a policy does not exist."""
    return [RequestedModel(o, policy_name(o, config_of(o.model)), o.load_file()) for o in options]


def frozen_models(
    requested: Sequence[RequestedModel], downstreams: Sequence[Downstream], layer: str | None = None
) -> list[FrozenModel]:
    """The models, on their device; ValueError if one does not take the images of one of the data sets.

    With a `layer`, their features are those of the backbone's end and of this layer, side by side. timm weights may
    need a download, so they are loaded here, after everything else is checked.
    """
    models = [request.in_file or request.options.load() for request in requested]
    names = distinct_names([model.name for model in models], [request.options.model for request in requested])
    if len(set(names)) < len(names):
        raise ValueError("the same model was given twice: give different ones")
    found = []
    for name, model, request in zip(names, models, requested, strict=True):
        views = [views_for(request.options, request.policy, model, downstream.test) for downstream in downstreams]
        if layer is None:
            found.append(FrozenModel(name, partial(_backbone_features, model), views[0]))
        else:
            found.append(FrozenModel(f"{name} with {layer}", model.features_beside(layer), views[0]))
    return found


def _backbone_features(model: PretrainedModel, images: torch.Tensor) -> torch.Tensor:
    return features_of(model.embed(images))
