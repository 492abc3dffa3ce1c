"""What is trained where no method is named, and what `--keep` adds to it."""

import pytest
import torch

from care.cli.train_setup import configuration
from care.models import Encoder
from care.models.layers import layer_names
from care.train import Config, keep_settings, recommended_config


def test_pictures_alone_are_trained_with_four_views_and_muon():
    config = recommended_config("cifar10")
    assert (config.method.name, config.equivariance.name, config.model) == ("simclr", "none", "resnet18")
    assert (config.method.settings.views, config.batch_size) == (4, 128)
    assert (config.optimizer, config.learning_rate, config.schedule) == ("muon", 0.003, "cosine")
    assert (config.warmup_epochs, recommended_config("cifar10", epochs=1).warmup_epochs) == (2, 0)
    assert recommended_config("cifar10", optimizer="adam").learning_rate == 0.001
    assert recommended_config("cifar10", model="resnet50").model == "resnet50"
    assert recommended_config("cifar10", batch_size=64).batch_size == 64


@pytest.mark.parametrize("named", [{"method": "simclr"}, {"method": "byol"}, {"equivariance": "care"}])
def test_what_is_named_is_trained_at_the_papers_values(named):
    config = recommended_config("cifar10", **named)
    assert (config.optimizer, config.schedule, config.batch_size, config.policy) == ("adam", "constant", 256, "cifar10")
    assert config.flat().get("views", 2) == 2


def test_point_clouds_alone_are_trained_with_care():
    config = recommended_config("chains")
    assert (config.equivariance.name, config.optimizer, config.model) == ("care", "adam", "deepset")
    assert config.flat()["care_weight"] == 30
    assert recommended_config("chains", equivariance="split", embedding_dim=32).optimizer == "adam"


def kept(**chosen):
    return configuration({"data": "cifar10", **chosen}, "hue", None, None, None).flat()


@pytest.mark.parametrize(
    ("batch", "chunks", "found"),
    [(128, None, 8), (64, None, 8), (16, None, 4), (8, None, 2), (30, None, 6), (128, 16, 16)],
)
def test_what_is_kept_is_learned_from_half_of_the_samples_in_chunks_that_fit_the_batch(batch, chunks, found):
    values = kept(batch_size=batch, **({} if chunks is None else {"chunks": chunks}))
    assert (values["chunks"], values["equivariance_fraction"]) == (found, 1 if batch == 30 else 0.5)


@pytest.mark.parametrize("chosen", [{}, {"optimizer": "sgd"}, {"activation_checkpointing": True}, {"method": "byol"}])
def test_what_is_kept_is_from_the_middle_which_is_left_to_the_method(chosen):
    values = kept(**chosen)
    assert (values["equivariant_layer"], values["stop_gradient"], values["equivariant_weight"]) == ("middle", True, 0.1)
    assert values["equivariant_depth"] == 3


def test_what_is_kept_is_in_a_split_embedding():
    for other in ("augself", "care", "none"):
        with pytest.raises(ValueError, match=f"to a split embedding: leave out the equivariance {other}"):
            kept(equivariance=other)
    assert kept(equivariance="split") == kept()


@pytest.mark.parametrize("views", ["shared", "mixed"])
def test_what_is_kept_has_views_of_its_own(views):
    message = f"^keep draws views of its own: leave out equivariance_views {views}, or choose own$"
    with pytest.raises(ValueError, match=message):
        kept(equivariance_views=views)
    resumed = Config.of(data="shapes", equivariance="split", equivariance_views=views)
    with pytest.raises(ValueError, match=message):
        keep_settings("hue", resumed, {})
    assert keep_settings("hue", resumed, {"equivariance_views": "own"})["equivariance_policy"] == "hue_only"
    assert kept(equivariance_views="composed")["equivariance_views"] == "composed"


def test_what_is_kept_can_train_the_backbone_and_be_from_elsewhere():
    assert kept(stop_gradient=False).get("equivariant_layer") is None
    assert kept(equivariant_layer="layer3")["equivariant_layer"] == "layer3"
    assert kept(embedding_dim=64)["embedding_dim"] == 64 + 16


@pytest.mark.parametrize(("model", "name"), [("test_resnet", "layer2"), ("test_vit", "blocks.2"), ("deepset", None)])
def test_the_middle_of_a_network(model, name):
    input_shape = (24,) if model == "deepset" else (32, 32)
    if model == "test_vit":
        input_shape = (160, 160)
    sizes = {"embedding_dim": 24, "head_width": 16, "equivariant_dim": 8, "equivariant_layer": "middle"}
    with torch.device("meta"):
        encoder = Encoder.build(model, input_shape, **sizes)
        apart = Encoder.build(model, input_shape, **sizes, stop_gradient=True)
    assert (encoder.equivariant_head is None) == (name is None)
    assert (apart.equivariant_head is not None, apart.layer) == (True, encoder.layer)
    if name is not None:
        assert layer_names(encoder.backbone)[encoder.layer] == name


def test_the_middle_is_written_and_read_back():
    config = configuration({"data": "shapes"}, "hue", None, None, None)
    assert Config.from_toml(config.to_toml()) == config
