"""What a configuration has where nothing was chosen: the head of the method, and the rate of the optimizer."""

import pytest
import torch
from torch import nn

from care.cli.train_setup import configuration
from care.objective import build_encoder, build_objective
from care.train import Config, default_config, recipe, recommended_config

BN, RELU = nn.BatchNorm1d, nn.ReLU
# Layers after the features, from the papers, and from the settings that are usual for small images.
PUBLISHED = {
    "simclr": ([512, BN, RELU, 128], None),
    "mocov2": ([512, BN, RELU, 128], None),
    "dcl": ([512, BN, RELU, 128], None),
    "hard_negatives": ([512, BN, RELU, 128], None),
    "barlow_twins": ([2048, BN, RELU, 2048, BN, RELU, 2048], None),
    "vicreg": ([2048, BN, RELU, 2048, BN, RELU, 2048], None),
    "byol": ([4096, BN, RELU, 256], [4096, BN, RELU, 256]),
    "simsiam": ([2048, BN, RELU, 2048, BN, RELU, 2048, BN], [512, BN, RELU, 2048]),
    "mocov3": ([4096, BN, RELU, 256, BN], [4096, BN, RELU, 256, BN]),
}


def layers(network):
    return [m.out_features if isinstance(m, nn.Linear) else BN if isinstance(m, BN) else type(m) for m in network]


@pytest.mark.parametrize("method", PUBLISHED)
def test_a_method_has_the_head_that_it_is_published_with(method):
    config, (head, predictor) = recommended_config("cifar10", method=method), PUBLISHED[method]
    with torch.device("meta"):
        encoder = build_encoder(config, (32, 32))
        built = build_objective(config, encoder, config.batch_size).method
    assert layers(encoder.head) == head
    assert (layers(built.predictor) if predictor else hasattr(built, "predictor")) == (predictor or False)


def test_what_is_chosen_goes_before_the_head_of_the_method():
    config = default_config("cifar10", method="barlow_twins", embedding_dim=64, head_depth=1)
    assert (config.embedding_dim, config.head_width, config.head_depth) == (64, 2048, 1)
    assert default_config("imagenet100", method="vicreg").head_batchnorm
    assert not default_config("imagenet100", method="mocov2").head_batchnorm


@pytest.mark.parametrize("model", ["test_resnet", "small_resnet"])
def test_networks_that_are_smaller_than_such_heads_keep_theirs(model):
    config = recommended_config("shapes", method="simsiam", model=model)
    assert (config.embedding_dim, config.head_width, config.head_depth) == (128, 512, 2)
    assert (config.head_last_batchnorm, config.flat()["predictor_width"]) == (False, None)
    assert recommended_config("chains", method="byol").head_width == 64


def test_another_method_brings_its_head_and_leaves_what_was_chosen():
    simclr = recipe("cifar10-resnet18-simclr")
    twins = simclr.replace(method="simsiam")
    assert twins == default_config("cifar10", model="resnet18", method="simsiam")
    assert twins.replace(method="simclr") == simclr
    assert simclr.replace(embedding_dim=2).replace(method="vicreg").embedding_dim == 2
    assert simclr.replace(method="byol", head_width=64).head_width == 64


@pytest.mark.parametrize(("method", "dim"), [({}, 128), ({"method": "vicreg"}, 2048)])
def test_what_is_kept_comes_beside_the_embedding_of_the_method(method, dim):
    chosen = {"data": "cifar10", "batch_size": 64, **method}
    config = configuration(chosen, keep="hue", config=None, recipe_name=None, resumed=None)
    assert (config.embedding_dim, config.equivariant_dim) == (dim + 16, 16)
    with pytest.raises(ValueError, match="a split embedding needs a method"):
        configuration({"data": "cifar10", "method": "none"}, "hue", None, None, None)


def test_a_run_from_before_is_read_as_it_was():
    """Its file has no predictor_width and no head_last_batchnorm: the predictor was as wide as the head."""
    text = 'data = "cifar10"\nmodel = "resnet18"\nhead_width = 512\n[method]\nname = "simsiam"\n'
    config = Config.from_toml(text)
    with torch.device("meta"):
        encoder = build_encoder(config, (32, 32))
        built = build_objective(config, encoder, config.batch_size).method
    assert layers(encoder.head) == [512, BN, RELU, 128]
    assert layers(built.predictor) == [512, BN, RELU, 128]


@pytest.mark.parametrize(
    ("optimizer", "batch", "rate"),
    [
        ("adam", 256, 1e-3),
        ("adamw", 1024, 1e-3),
        ("muon", 64, 3e-3),
        ("sgd", 256, 0.06),
        ("sgd", 1024, 0.24),
        ("lars", 256, 0.3),
        ("lars", 4096, 4.8),
    ],
)
def test_the_learning_rate_is_the_optimizers_unless_it_is_chosen(optimizer, batch, rate):
    shared = {"data": "cifar10", "optimizer": optimizer, "batch_size": batch}
    assert Config.of(**shared).learning_rate == pytest.approx(rate)
    assert recommended_config(**shared).learning_rate == pytest.approx(rate)
    assert Config.of(**shared, learning_rate=0.5).learning_rate == 0.5
    assert f"learning_rate = {Config.of(**shared).learning_rate}" in Config.of(**shared).to_toml()


def test_recipes_keep_the_rate_that_they_state():
    assert default_config("stl10", batch_size=512).learning_rate == 0.06
    assert default_config("imagenet100").learning_rate == 0.8
    assert recipe("cifar10-sgd-simclr").replace(batch_size=256).learning_rate == 0.12


def test_another_optimizer_brings_its_rate_and_momentum():
    assert default_config("imagenet100", optimizer="lars").learning_rate == pytest.approx(0.6)
    adam = default_config("stl10", optimizer="adam")
    assert (adam.learning_rate, adam.sgd_momentum) == (1e-3, 0.9)
    config = recipe("cifar10-resnet18-simclr")
    assert config.replace(optimizer="lars").learning_rate == pytest.approx(0.3)
    assert config.replace(learning_rate=0.02).replace(optimizer="sgd").learning_rate == 0.06
    assert config.replace(learning_rate=0.02).replace(epochs=3, optimizer="adam").learning_rate == 0.02
    assert config.replace(optimizer="sgd", learning_rate=0.02).learning_rate == 0.02
    muon = config.replace(optimizer="muon")
    assert (muon.learning_rate, muon.sgd_momentum) == (3e-3, 0.95)
    assert muon.replace(optimizer="sgd").sgd_momentum == 0.9
    assert default_config("cifar10", optimizer="muon", sgd_momentum=0.9).sgd_momentum == 0.9
