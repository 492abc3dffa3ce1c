"""Views that are smaller while training than what a finished encoder is given."""

import pytest
import torch
from torch import nn
from torchvision.transforms import RandomResizedCrop

from care.augment import policy_named, simclr
from care.cli.train_setup import configuration
from care.objective import view_plan
from care.train import load, prepare, recommended_config, train
from care.train.trained import load_trained
from objective.small import REGISTERED_ONCE, small
from train.small import small_config, small_data

OWN, TRAINING = 12, 8


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The folder of a run, and the sides of what went through its network, in training and in evaluation mode."""
    folder, sides = tmp_path_factory.mktemp("run"), {True: set(), False: set()}

    def note(module, inputs):
        if isinstance(module, nn.Conv2d) and module.in_channels == 3 and inputs[0].device.type != "meta":
            sides[module.training].add(inputs[0].shape[-1])

    handle = nn.modules.module.register_module_forward_pre_hook(note)
    config = small_config(small_data(folder / "data"), size=OWN, train_size=TRAINING, epochs=1)
    train(prepare(config, folder / "run"))
    handle.remove()
    return folder / "run", sides


def test_steps_see_smaller_views_and_measures_the_size_of_the_encoder(run):
    assert run[1] == {True: {TRAINING}, False: {OWN}}


def test_a_finished_encoder_is_for_its_own_size(run):
    assert load_trained(run[0]).input_shape == (OWN, OWN)
    assert load(run[0])(torch.rand(2, 3, OWN, OWN)).shape == (2, 8)


@pytest.mark.parametrize("name", REGISTERED_ONCE)
def test_all_views_of_a_step_have_the_same_size(name):
    chosen = {"model": "small_resnet", **REGISTERED_ONCE[name], "size": 32, "train_size": 16}
    config = small(**chosen)
    turned = {view.policy.size for view in view_plan(config, config.batch_size).views if view.turned}
    others = {view.policy.size for view in view_plan(config, config.batch_size).views if not view.turned}
    assert (others, turned - {8}) == ({16}, set())
    context = config.context(config.batch_size)
    assert {context.policy.size, context.method_policy.size} == {16}


def test_a_second_policy_has_it_too():
    config = small(size=32, train_size=16, policy="byol", second_policy="byol_second")
    assert [view.policy.size for view in view_plan(config, 8).views] == [16, 16]
    assert config.context(8).second_policy.size == 16


def test_a_view_costs_its_pixels():
    usual = small(size=32, equivariance="split", stop_gradient=True, equivariant_layer="layer2", views=4)
    assert usual.views_a_step == pytest.approx(4 + 2 / 3)
    assert usual.replace(train_size=24).views_a_step == pytest.approx((4 + 2 / 3) * 24**2 / 32**2)
    assert usual.replace(train_size=32).views_a_step == usual.views_a_step


def test_what_a_crop_shows_is_about_as_large_as_in_a_whole_picture(generator):
    """The reason for three quarters. Of areas a uniform in [0.2, 1], E 1/√a = 1.38, and somewhat more of those that fit
    into the picture; torchvision's crops say how much."""

    def enlargement(size):
        drawn = policy_named("small_images").resized(size).sample(20_000, (320, 320), generator)
        return size / 32 * (320 / (drawn.height * drawn.width).sqrt()).mean().item()

    boxes = [RandomResizedCrop.get_params(torch.empty(320, 320), (0.2, 1), (3 / 4, 4 / 3)) for _ in range(2000)]
    theirs = sum(320 / (height * width) ** 0.5 for _, _, height, width in boxes) / len(boxes)
    assert 1.38 < theirs == pytest.approx(enlargement(32), rel=0.03)
    assert enlargement(24) == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize(
    ("chosen", "found"),
    [
        ({"data": "cifar10"}, 24),
        ({"data": "cifar10", "model": "resnet50"}, 24),
        ({"data": "photos"}, 168),
        ({"data": "photos", "size": 96}, 72),
        ({"data": "photos", "size": 96, "train_size": 96}, 96),
        ({"data": "cifar10", "policy": simclr(64)}, 48),
        ({"data": "cifar10", "policy": simclr(64).only("color")}, None),
        ({"data": "photos", "size": 24}, None),
        ({"data": "photos", "model": "vit_small_patch16_224"}, None),
        ({"data": "photos", "init": "timm/resnet18.a1_in1k"}, None),
        ({"data": "cifar10", "method": "simclr"}, None),
        ({"data": "chains"}, None),
    ],
    ids=str,
)
def test_where_no_method_is_named_resnets_are_trained_on_three_quarters(chosen, found):
    assert recommended_config(**chosen).train_size == found


def test_keep_leaves_it_as_it_is():
    assert configuration({"data": "cifar10"}, "hue", None, None, None).train_size == 24


def test_a_network_for_one_size_alone_is_refused(tmp_path):
    config = small_config(small_data(tmp_path / "data"), model="vit_tiny_patch16_224", size=224, train_size=160)
    with pytest.raises(ValueError, match=r"^vit_tiny_patch16_224 accepts views of one size only, not of 160 px: leave"):
        prepare(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"size": 32, "train_size": 128}, "train_size 128 is larger than the views of 32 pixels: choose at most 32"),
        ({"policy": "simclr:size=32", "train_size": 33}, "train_size 33 is larger than the views of 32 pixels"),
        ({"policy": "rotations", "model": "deepset", "train_size": 16}, "train_size is for images: point clouds have"),
    ],
    ids=str,
)
def test_views_are_not_larger_while_training_than_after_it(chosen, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        small(**chosen)


def test_views_of_the_same_size_are_allowed():
    assert small(size=32, train_size=32).training_pixels == 1
