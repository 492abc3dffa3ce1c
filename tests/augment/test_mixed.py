"""Policies of which each draw is one: what is drawn, how often, and what the rest of the package makes of them."""

import dataclasses

import pytest
import scipy.stats
import torch

from care.augment import ImagePolicy, apply, crop_only, hue_only, mixture, policy_named
from care.objective import view_plan
from care.train import keeping
from objective.small import small

BOTH = "hue_only,crop_only"


def families_drawn(p):
    """(whether it shifts the hue, whether it crops) of every draw."""
    cropped = (p.height != p.input_shape[0]) | (p.width != p.input_shape[1])
    return p.hue != 0, cropped


def test_each_draw_is_from_one_part_and_all_are_equally_likely(generator):
    n = 6000
    policy = policy_named("hue_only,crop_only,byol_second")
    uniform, which = policy.random_numbers(n, (40, 40), generator)
    p = policy.from_numbers((uniform, which), (40, 40))
    parts = [dataclasses.replace(policy_named(name), size=32, kernel_size=3, center=1.0)
             for name in ("hue_only", "crop_only", "byol_second")]  # fmt: skip
    vectors = torch.stack([part.from_numbers((uniform,), (40, 40)).to_vector() for part in parts])
    chosen = torch.tensor([min(int(3 * u), 2) for u in which.tolist()])
    assert torch.equal(p.to_vector(), vectors[chosen, torch.arange(n)])
    assert scipy.stats.chisquare(chosen.bincount()).pvalue > 1e-4
    assert torch.allclose(torch.tensor(scipy.stats.pearsonr(which, uniform[:, 0])[0]), torch.zeros(()), atol=0.06)


def test_a_draw_has_one_family_and_another_has_the_other(generator):
    hue, cropped = families_drawn(policy_named(BOTH).sample(2000, (64, 64), generator))
    assert not (hue & cropped).any()
    assert hue.double().mean().item() == pytest.approx(0.5, abs=0.05)
    assert cropped.double().mean().item() == pytest.approx(0.5, abs=0.05)


def test_sizes_and_the_identity_are_those_of_the_whole(generator):
    policy = dataclasses.replace(policy_named(BOTH).resized(48), identity=0.5)
    p = policy.sample(2000, (64, 64), generator)
    assert (p.size, policy.parts[1].size, policy.parts[1].identity) == (48, 48, 0.5)
    hue, cropped = families_drawn(p)
    assert (hue | cropped).double().mean().item() == pytest.approx(0.5, abs=0.05)
    assert apply(torch.rand(2000, 3, 64, 64, generator=generator)[:4], p[:4]).shape == (4, 3, 48, 48)


def test_a_family_alone_is_that_of_the_part_that_has_it():
    policy = policy_named("hue_only,crop_only,color_only")
    assert policy.families() == ("crop", "color")
    assert type(policy.only("crop").certain()) is ImagePolicy
    alone = policy.only("crop").certain()
    assert (alone.crop, alone.scale, alone.color) == (1.0, crop_only().scale, 0.0)
    assert (policy.hue, policy.brightness, policy.only("color").hue) == (0.5, 0.4, 0.5)
    small_crops = dataclasses.replace(crop_only(), scale=(0.02, 0.5))
    assert mixture([hue_only(), small_crops]).scale == (0.02, 0.5)  # that of hue_only, which never crops, is no range


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match=r"unknown policy 'crop_onlyy'.*did you mean crop_only\?"):
        policy_named("hue_only,crop_onlyy")
    with pytest.raises(ValueError, match="the policy rotations is for point clouds"):
        policy_named("hue_only,rotations")


def test_a_chunk_draws_from_one_of_what_is_kept(generator):
    """Images of a chunk share it; the cost is that of one family: two views of each sample."""
    kept = keeping("hue, crop", 8)
    assert kept["equivariance_policy"] == BOTH
    config = small(**kept, equivariant_dim=3, size=32, policy="cifar10")
    plan = view_plan(config, 8)
    assert len(plan.views) == 4
    spec = plan.views[2]
    assert spec.policy.parts[0].hue == 0.5
    images = torch.rand(1, 3, 32, 32, generator=generator).expand(8, -1, -1, -1)
    views = plan.draw(images, 8, slice(None), generator)
    for i in plan.equivariance:
        chunks = views[i].inputs.unflatten(0, (4, 2))
        assert torch.equal(chunks[:, 0], chunks[:, 1])
        assert len(chunks[:, 0].unique(dim=0)) == 4


def test_what_can_be_kept_is_said():
    message = r"cannot keep crops: choose hue, photometric or crop, or several, such as hue,crop; did you mean crop\?"
    with pytest.raises(ValueError, match=message):
        keeping("hue,crops", 8)
    assert keeping("crop,crop", 8)["equivariance_policy"] == "crop_only"


def test_two_augmentations_share_a_family_and_nothing_else(generator):
    """With the hue of others, and the part that draws it; with a crop of their own."""
    policy = policy_named("color_only,byol_second")
    own, other = (policy.random_numbers(200, (64, 64), generator) for _ in range(2))
    mixed, theirs = (policy.from_numbers(numbers, (64, 64)) for numbers in (policy.sharing(own, other, "color"), other))
    assert torch.equal(mixed.hue, theirs.hue)
    assert torch.equal(mixed.brightness, theirs.brightness)
    cropped = families_drawn(theirs)[1]
    assert cropped.any()
    assert not torch.equal(mixed.height[cropped], theirs.height[cropped])
