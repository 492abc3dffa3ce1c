"""Policies as text: a preset with some of its fields replaced, and back."""

import dataclasses

import pytest

from care.augment import PRESETS, ImagePolicy, PointPolicy, hue_only, mixture, mocov2, policy_named, policy_text, simclr


def test_fields_of_a_preset_are_replaced():
    expected = dataclasses.replace(simclr(), gray=0.1, scale=(0.2, 1.0), flip=0.0)
    assert policy_named("simclr:gray=0.1,scale=0.2-1,flip=0") == expected
    assert policy_named(" simclr : gray = 0.1 , scale = 0.2 - 1 , flip = 0 ") == expected
    assert policy_named("mocov2:kernel_size=9,sigma=1e-2-2.5") == dataclasses.replace(
        mocov2(), kernel_size=9, sigma=(0.01, 2.5)
    )


def test_another_size_takes_the_blur_with_it_unless_that_is_chosen():
    assert policy_named("mocov2:size=64") == mocov2().resized(64)
    assert policy_named("mocov2:size=64").kernel_size == 7
    assert policy_named("mocov2:kernel_size=3,size=64") == dataclasses.replace(mocov2(), size=64, kernel_size=3)


def test_policies_in_a_mixture_have_fields_of_their_own():
    changed = dataclasses.replace(simclr(), gray=0.1, flip=0.0)
    assert policy_named("simclr:gray=0.1,flip=0,hue_only:hue=0.3") == mixture(
        [changed, dataclasses.replace(hue_only(), hue=0.3)]
    )
    assert policy_named("hue_only,simclr:gray=0.1,flip=0") == mixture([hue_only(), changed])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("simclr:grey=0.1", "a policy has no field 'grey'; did you mean gray?"),
        ("simclr:zoom=2", "a policy has no field 'zoom'; its fields are size, crop, scale, ratio, "),
        ("simclr:gray=some", "gray of a policy is a number, got 'some'"),
        ("simclr:gray=nan", "gray of a policy is a number, got 'nan'"),
        ("simclr:gray=0.1-0.2", "gray of a policy is a number, got '0.1-0.2'"),
        ("simclr:scale=0.2", "scale of a policy is a range such as 0.08-1, got '0.2'"),
        ("simclr:sigma=1-inf", "sigma of a policy is a range such as 0.1-2, got '1-inf'"),
        ("simclr:size=31.5", "size of a policy is a whole number, got '31.5'"),
        ("simclr:size=100000", "views have at most 4096 pixels a side, got 100000"),
        ("simclr:gray=2", "gray is a probability, got 2.0"),
        ("simclr:scale=1-0.2", "scale must be 0 < low ≤ high ≤ 1"),
        ("simclr:", "a policy has no field ''"),
        ("gray=0.1", "gray=0.1 does not say which policy to change: write it like simclr:gray=0.1"),
        ("simcl:gray=0.1", "unknown policy 'simcl': .*did you mean simclr?"),
        ("rotations:scale=1-2", "the policy rotations is for point clouds"),
    ],
)
def test_mistakes_are_explained_in_a_line(text, words):
    with pytest.raises(ValueError, match=words.replace("?", r"\?")) as error:
        policy_named(text)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "policy",
    [
        *(make() for make in PRESETS.values()),
        ImagePolicy(size=12, gray=1 / 3, scale=(1e-5, 0.7), sigma=(0.1, 3.0), hue=0.0),
        ImagePolicy(size=96, crop=0.0, kernel_size=9, identity=0.25),
        mixture([simclr(), hue_only()]),
        mixture([dataclasses.replace(simclr(), gray=0.3), dataclasses.replace(hue_only(), hue=0.25)]),
    ],
    ids=str,
)
def test_every_policy_comes_back_from_its_text(policy):
    assert policy_named(policy_text(policy)) == policy


def test_the_text_is_that_of_the_nearest_preset():
    assert policy_text(mocov2()) in ("mocov2", "imagenet100")
    assert policy_text(dataclasses.replace(mocov2(), gray=0.1)) == "mocov2:gray=0.1"
    assert policy_text(simclr().resized(64)) == "simclr:size=64"


def test_other_policies_have_no_text():
    class Mine(ImagePolicy):
        pass

    for policy in (Mine(size=32), PointPolicy()):
        with pytest.raises(ValueError, match="cannot be written as text: train with an ImagePolicy"):
            policy_text(policy)
