import pytest

from care.losses import mean_weight
from care.objective import policy_for
from care.train import Config, default_config, recipe, recipes


def test_toml_and_back():
    config = Config.of(
        data='odd "name" \\ here', equivariance="care", care_weight=0.3, limit=512, compile=True, batch_size=64
    )
    assert Config.from_toml(config.to_toml()) == config
    assert Config.of(**config.flat()) == config
    assert "limit" not in Config.of(data="shapes").to_toml()
    assert Config.from_toml(Config.of(data="shapes").to_toml()).limit is None


def test_a_byte_order_mark_is_not_part_of_a_configuration(tmp_path):
    """Some editors write U+FEFF first."""
    (tmp_path / "config.toml").write_bytes(b"\xef\xbb\xbf" + 'data = "café"\n'.encode())
    assert Config.read(tmp_path / "config.toml").data == "café"


@pytest.mark.usefixtures("unchecked")
def test_a_method_is_a_table_or_just_a_name():
    text = 'data = "shapes"\nmethod = "mocov2"\n[equivariance]\nname = "care"\ncare_weight = 3\n'
    config = Config.from_toml(text)
    assert (config.method.name, config.method.settings.temperature) == ("mocov2", 0.1)
    assert config.equivariance.settings.care_weight == 3.0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('data = "shapes"\nepoch = 3', "no setting 'epoch'; did you mean 'epochs'"),
        ('data = "shapes"\nepochs = "many"', "epochs must be a whole number, got 'many'"),
        ('data = "shapes"\nepochs = true', "epochs must be a whole number, got True"),
        ('data = "shapes"\nmethod = "simclear"', "method must be one of simclr"),
        ('data = "shapes"\nmethod = 3', "method must be a name or a table, got 3"),
        ('data = "shapes"\n[method]\nname = 3', "the name of the method must be text, got 3"),
        ('data = "shapes"\ntemperature = 0.2', r"temperature belongs in the table \[method\]"),
        ('data = "shapes"\n[method]\nqueue = 3', r"\[method\]: queue is a setting of method mocov2, not of simclr"),
        ('data = "shapes"\n[method]\ntau = 3', r"\[method\]: there is no setting 'tau'"),
        ('data = "shapes"\nepochs = 0', "epochs must be at least 1"),
        ('data = "shapes"\nbatch_size = 1', "batch_size must be at least 2"),
        ('data = "shapes"\nlearning_rate = -1.0', "learning_rate must be greater than 0"),
        ('data = "shapes"\nlearning_rate = 1e38', r"learning_rate must be .*at most 1e\+37"),
        ('data = "shapes"\nsgd_momentum = 0.5', "sgd_momentum applies to sgd, lars and muon only, not to adam"),
        ('data = "shapes"\n[equivariance]\nname = "care"\nchunks = 3', "chunks must divide a batch of 256"),
        ('data = "shapes"\naccumulate = 3', "accumulate must divide"),
        ('data = "shapes"\ndevice = "bpu"', "config.toml: device must be auto, cpu, cuda, cuda:1 or mps, got 'bpu'"),
        ("data = ", "not valid TOML"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_mistakes_are_sentences(text, message):
    with pytest.raises(ValueError, match=message):
        Config.from_toml(text, "config.toml")


def test_differences_are_named():
    a, b = Config.of(data="shapes"), Config.of(data="shapes", epochs=7, seed=3)
    assert a.differences(b) == ["epochs: 400 instead of 7", "seed: 0 instead of 3"]
    c = Config.of(data="shapes", equivariance="care")
    assert "equivariance: none instead of care" in a.differences(c)
    assert "care_weight: nothing instead of 3.0" in a.differences(c)


def test_another_method_begins_with_its_own_settings():
    config = Config.of(data="shapes", temperature=0.7, equivariance="care", chunks=4)
    other = config.replace(method="mocov2", epochs=3)
    assert (other.method.settings.temperature, other.epochs) == (0.1, 3)
    assert other.equivariance == config.equivariance
    assert config.replace(temperature=0.2).method.settings.temperature == 0.2


def test_a_method_outside_of_care_is_not_needed_to_read_a_configuration(tmp_path):
    text = 'data = "shapes"\nembedding_dim = 20\n[method]\nname = "evil.py:Evil"\nx = 3\n'
    text += '[equivariance]\nname = "other.py:Other"\nequivariant_dim = 4\n'
    with pytest.raises(ValueError, match=r"evil\.py:Evil is code outside of care"):
        Config.from_toml(text)
    config = Config.from_toml(text, unchecked=True)
    assert (config.method.name, config.method.flat(), config.equivariant_dim) == ("evil.py:Evil", {"x": 3}, 4)


def test_every_recipe_is_valid_and_survives_toml():
    for name, config in recipes().items():
        assert Config.from_toml(config.to_toml()) == config, name


def test_recipes_hold_the_papers_numbers():
    def of(name, *names):
        values = recipe(name).flat()
        return tuple(values[name] for name in names)

    named = ("model", "epochs", "batch_size", "temperature", "chunks")
    assert of("cifar10-care-simclr", *named) == ("resnet50", 400, 256, 0.5, 16)
    assert of("cifar10-care-simclr", "optimizer", "learning_rate", "weight_decay") == ("adam", 1e-3, 1e-6)
    assert of("cifar10-care-simclr", "care_weight") == pytest.approx((0.30,))
    assert of("cifar100-care-simclr", "care_weight") == pytest.approx((0.126,))
    named = ("optimizer", "learning_rate", "schedule", "chunks")
    assert of("stl10-care-simclr", *named) == ("sgd", 0.06, "cosine", 8)
    assert of("stl10-care-simclr", "sgd_momentum") == (0,)  # in the authors' program
    assert of("cifar10-care-mocov2", "temperature", "queue") == (0.1, 4096)
    assert of("imagenet100-mocov2", "temperature", "queue") == (0.2, 65536)
    assert of("imagenet100-care-mocov2", "care_weight") == pytest.approx((mean_weight(0.01, 64),))
    assert of("imagenet100-care-simclr", "equivariance_policy") == ("imagenet100_equivariance",)
    assert recipe("imagenet100-simclr").measured_policy == recipe("imagenet100-care-simclr").measured_policy
    assert recipe("cifar10-circle-care-simclr").embedding_dim == 2
    with pytest.raises(ValueError, match="care recipes"):
        recipe("cifar11")


@pytest.mark.parametrize("method", ["simclr", "mocov2", "mocov3", "byol"])
def test_other_methods_have_a_recipe_for_small_images(method):
    """A rate of 0.06 for every 256 images, and the augmentations that are usual there."""
    config = recipe(f"cifar100-sgd-{method}")
    assert (config.method.name, config.model, config.data) == (method, "resnet18", "cifar100")
    assert config.learning_rate == pytest.approx(0.06 * config.batch_size / 256)
    assert (config.optimizer, config.sgd_momentum, config.weight_decay) == ("sgd", 0.9, 5e-4)
    assert (config.schedule, config.warmup_epochs, config.norm_bias_decay) == ("cosine", 10, False)
    assert config.flat().get("symmetric", True)
    policy = policy_for(config.policy)
    assert (policy.scale, policy.gray, policy.blur, policy.size) == ((0.2, 1.0), 0.1, 0.0, 32)
    assert (policy.brightness, policy.contrast, policy.saturation, policy.hue) == (0.4, 0.4, 0.4, 0.1)
    shorter = config.replace(epochs=100, equivariance="care")
    assert (shorter.epochs, shorter.flat()["chunks"]) == (100, 16)
    with pytest.raises(ValueError, match=r"warmup_epochs must be in \[0, 5\], the number of epochs, got 10"):
        config.replace(epochs=5)


def test_the_six_ablations_differ_in_the_loss_only():
    ablations = [config for name, config in recipes().items() if "ablation" in name]
    assert len(ablations) == 6
    assert len({(config.method.name, config.equivariance.name) for config in ablations}) == 6
    assert len({config.replace(method="simclr", equivariance="none") for config in ablations}) == 1


def test_a_data_set_is_enough():
    assert default_config("cifar10").model == "resnet50"
    assert default_config("some/folder").policy == "mocov2"
    assert recipe("flowers102-care-simclr").size == 128
    assert default_config("chains", equivariance="care").flat()["care_weight"] == 30
