"""What the tests of the peers share: the features of an objective's views, and views with planted features."""

import copy

import torch

from care.models import forward_views
from care.objective import EncodedView, build_encoder, build_objective
from objective.small import BATCH, small

CLOUDS = {"policy": "rotations", "model": "deepset"}


def peer_of(**chosen):
    """The equivariance alone, for images or clouds."""
    torch.manual_seed(0)
    config = small(**chosen)
    input_shape = (16,) if config.policy == "rotations" else (32, 32)
    return build_objective(config, build_encoder(config, input_shape), BATCH).equivariance


def features_of(objective, views):
    """The features of every view, one pass each."""
    return [copy.deepcopy(objective.encoder).features(view.inputs) for view in views]


def planted(theta, features=None, embedding=None):
    """A view that an encoder could have made."""
    return EncodedView(torch.zeros(len(theta), 1), theta, features, embedding)


def passed(network, inputs):
    """[network(x) for x in inputs], one pass each, of a copy."""
    return forward_views(copy.deepcopy(network), inputs)
