import dataclasses

import pytest

from care.losses import mean_weight
from care.train import Config, default_config, recipe, recipes


def test_toml_and_back():
    config = Config(data='odd "name" \\ here', equivariance=0.3, limit=512, compile=True, batch_size=64)
    assert Config.from_toml(config.to_toml()) == config
    assert "limit" not in Config(data="shapes").to_toml()
    assert Config.from_toml(Config(data="shapes").to_toml()).limit is None


@pytest.mark.usefixtures("unchecked")
def test_whole_numbers_serve_as_numbers():
    assert Config.from_toml('data = "shapes"\nequivariance = 3\n').equivariance == 3.0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('data = "shapes"\nepoch = 3', "no setting 'epoch'; did you mean 'epochs'"),
        ('data = "shapes"\nepochs = "many"', "epochs must be a whole number, got 'many'"),
        ('data = "shapes"\nepochs = true', "epochs must be a whole number, got True"),
        ('data = "shapes"\nmethod = "simclear"', "method must be one of simclr"),
        ('data = "shapes"\nepochs = 0', "epochs must be at least 1"),
        ('data = "shapes"\nbatch_size = 1', "nothing to be compared with"),
        ('data = "shapes"\nlearning_rate = -1.0', "learning_rate must be greater than 0"),
        ('data = "shapes"\nlearning_rate = 1e38', "learning_rate must be at most 1e37"),
        ('data = "shapes"\nequivariance = 1.0\nchunks = 3', "chunks must divide a batch of 256"),
        ('data = "shapes"\naccumulate = 3', "accumulate must divide"),
        ("data = ", "not valid TOML"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_mistakes_are_sentences(text, message):
    with pytest.raises(ValueError, match=message):
        Config.from_toml(text, "config.toml")


def test_differences_are_named():
    a, b = Config(data="shapes"), Config(data="shapes", epochs=7, seed=3)
    assert a.differences(b) == ["epochs: 400 instead of 7", "seed: 0 instead of 3"]


def test_every_recipe_is_valid_and_survives_toml():
    for name, config in recipes().items():
        assert Config.from_toml(config.to_toml()) == config, name


def test_recipes_hold_the_papers_numbers():
    care = recipe("cifar10-care-simclr")
    assert (care.model, care.epochs, care.batch_size, care.temperature, care.chunks) == ("resnet50", 400, 256, 0.5, 16)
    assert (care.optimizer, care.learning_rate, care.weight_decay) == ("adam", 1e-3, 1e-6)
    assert care.equivariance == pytest.approx(0.30)
    assert recipe("cifar100-care-simclr").equivariance == pytest.approx(0.126)
    stl = recipe("stl10-care-simclr")
    assert (stl.optimizer, stl.learning_rate, stl.schedule, stl.chunks) == ("sgd", 0.06, "cosine", 8)
    assert stl.sgd_momentum == 0  # in the authors' program
    assert (recipe("cifar10-care-mocov2").temperature, recipe("cifar10-care-mocov2").queue) == (0.1, 4096)
    assert (recipe("imagenet100-mocov2").temperature, recipe("imagenet100-mocov2").queue) == (0.2, 65536)
    assert recipe("imagenet100-care-mocov2").equivariance == pytest.approx(mean_weight(0.01, 64))
    assert recipe("cifar10-circle-care-simclr").embedding == 2
    with pytest.raises(ValueError, match="care recipes"):
        recipe("cifar11")


def test_the_six_ablations_differ_in_the_loss_only():
    ablations = [config for name, config in recipes().items() if "ablation" in name]
    assert len(ablations) == 6
    assert len({(config.method, config.equivariance > 0) for config in ablations}) == 6
    rest = {dataclasses.replace(config, method="simclr", equivariance=0.0) for config in ablations}
    assert len(rest) == 1


def test_a_data_set_is_enough():
    assert default_config("cifar10").model == "resnet50"
    assert default_config("some/folder").policy == "mocov2"
    assert recipe("flowers102-care-simclr").size == 128
