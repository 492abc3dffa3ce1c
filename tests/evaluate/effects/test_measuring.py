"""How `care.measure` goes about it: the same every time, in batches, without touching the model, with a sentence for
mistakes."""

import dataclasses
import json
import math

import pytest
import torch
from responding import FLIPS, clouds, flatten, lengths, pictures

import care
from care.augment import ImagePolicy, PointPolicy
from care.data import Samples
from care.evaluate.effects.effect import PerAugmentation
from care.evaluate.effects.families import families_of
from care.evaluate.effects.measurement import Measurement
from care.evaluate.embedder import Embedder


def test_measurements_are_repeatable_and_paired():
    policy = ImagePolicy(size=6, kernel_size=1)
    small = [flatten, flatten, lambda x: x.flatten(1)[:, ::9]]
    first, again, other = (care.measure(model, pictures(60), policy, augmentations=2, batch_size=31) for model in small)
    assert first.to_json() == again.to_json()
    assert [r.augmentations for r in first.families.values()] == [r.augmentations for r in other.families.values()]
    assert first.gamma != other.gamma


def test_batches_do_not_matter():
    one, many = (care.measure(flatten, pictures(), FLIPS, augmentations=1, batch_size=b) for b in (1000, 33))
    assert one.wahba.values == pytest.approx(many.wahba.values, abs=1e-4)


def test_json_and_back():
    m = care.measure(lengths, clouds(50), PointPolicy(), augmentations=2)
    text = json.dumps(m.to_json(), allow_nan=False)
    assert str(Measurement.from_json(json.loads(text))) == str(m)


def test_a_collapse_is_seen_below_the_table():
    """An encoder of one output for all clouds; a record of before collapse was measured has no such line."""
    m = care.measure(lambda x: torch.ones(len(x), 4), clouds(50), PointPolicy(), augmentations=2)
    assert "\nRankMe 1.00, effective rank 0, alignment 0, uniformity 0 (d = 4)" in m.table()
    earlier = {name: value for name, value in m.to_json().items() if name != "collapse"}
    assert "RankMe" not in Measurement.from_json(earlier).table()


def test_every_sample_can_have_an_augmentation_of_its_own():
    x, policy = pictures(10), ImagePolicy(size=6, kernel_size=1)
    samples = Samples(x, torch.zeros(10, dtype=torch.int64), ("one",))
    embedder = Embedder(lambda v: {"f": v.flatten(1)}, samples, policy, "", torch.device("cpu"), 3)
    p = policy.sample(10, (6, 6), torch.Generator().manual_seed(0))
    torch.testing.assert_close(embedder.augmented_each(p)["f"], care.augment.apply(x, p).flatten(1))


def test_a_module_is_frozen_and_left_as_it_was():
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Dropout(0.5), torch.nn.BatchNorm1d(108))
    model[1].eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    first, again = (care.measure(model, pictures(50), FLIPS, augmentations=1) for _ in range(2))
    assert first.to_json() == again.to_json()
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert model.training
    assert not model[1].training
    assert model[2].training


def test_a_module_is_left_as_it_was_after_an_error():
    model = torch.nn.BatchNorm2d(3)
    with pytest.raises(ValueError, match="one row per input"):
        care.measure(model, pictures(4), FLIPS)
    assert model.training


def test_families_are_drawn_for_certain():
    for family in families_of(dataclasses.replace(care.augment.byol(32), center=1.0), 20)[1:]:
        drawn = family.policy.sample(50, (32, 32), torch.Generator().manual_seed(0))
        assert all(drawn.steps(i) for i in range(50)), family.name
        names = {step.split()[0] for i in range(50) for step in drawn.steps(i)}
        assert names <= ({"brightness", "contrast", "saturation", "hue"} if family.name == "color" else {family.name})
        assert family.count == (1 if family.name in ("flip", "gray", "solarize") else 20)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("model", "images", "message"),
    [
        (lambda x: x, pictures(4), r"gives \[4, 3, 6, 6\] for 4 inputs: take its mean over positions"),
        (lambda x: x.flatten(1)[:3], pictures(4), r"one row per input; model gives \[3, 108\] for 4 inputs$"),
        (lambda x: {"z": x, "y": x}, pictures(4), r"gives a dict of z, y: choose one, lambda x: model\(x\)\['z'\]$"),
        (lambda x: (x, x), pictures(4), r"gives a tuple: choose one of its tensors, lambda x: model\(x\)\[0\]$"),
        (lambda x: x.flatten(1).numpy(), pictures(4), "gives a ndarray: make it a tensor"),
        (flatten, list(pictures(4)), r"images must be a tensor \[n, 3, height, width\] .* got a list"),
        (lambda x: x.flatten(1) * math.nan, pictures(4), "must be finite"),
        (flatten, 2 * torch.rand(4, 3, 6, 6), "before any normalization"),
        (flatten, torch.full((4, 3, 6, 6), torch.nan), "before any normalization"),
        (flatten, torch.rand(4, 6), "inputs must be uint8 images"),
    ],
)
def test_mistakes_are_told(model, images, message):
    with pytest.raises(ValueError, match=message):
        care.measure(model, images, FLIPS, augmentations=1)


def test_no_augmentations_are_a_mistake():
    with pytest.raises(ValueError, match="at least one augmentation"):
        care.measure(flatten, pictures(4), FLIPS, augmentations=0)


def test_it_tells_how_far_it_is():
    seen = []
    care.measure(flatten, pictures(20), FLIPS, augmentations=3, progress=lambda *words: seen.append(words))
    assert seen[-1][1] == seen[-1][2] == len(seen)


def test_a_spread_in_words():
    assert str(PerAugmentation(())) == "–"
    assert str(PerAugmentation((math.nan, math.nan))) == "invariant"
    assert str(PerAugmentation((0.5,))) == "0.500"
    assert str(PerAugmentation((60.0, 85.0))) == "72.5 ± 18"
    assert PerAugmentation((1.0, math.nan, 3.0)).mean == 2
    assert PerAugmentation((1.0, math.nan, 3.0)).std == pytest.approx(math.sqrt(2))
