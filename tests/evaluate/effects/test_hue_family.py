"""The hue as a family of its own: encoders that see it, or nothing else."""

import colorsys
import dataclasses

import pytest
import torch

import care
from care.augment import ImagePolicy
from care.evaluate.effects.families import families_of

COLORS = dataclasses.replace(ImagePolicy(size=2, kernel_size=1), crop=0.0, flip=0.0, gray=0.0, blur=0.0).certain()


@pytest.fixture(scope="module")
def paints():
    """Pictures of one color each, of any hue."""
    colors = torch.tensor([colorsys.hsv_to_rgb(i / 1200, 0.6, 0.5) for i in range(1200)])
    return colors[:, :, None, None].expand(-1, -1, 2, 2)


def hue_on_the_circle(x):
    r, g, b = x.mean((2, 3)).unbind(1)
    return torch.nn.functional.normalize(torch.stack([2 * r - g - b, 3**0.5 * (g - b)], dim=1))


def value(x):
    """Of HSV: what a shift of hue leaves as it is."""
    largest = x.mean((2, 3)).amax(1)
    return torch.stack([torch.cos(largest), torch.sin(largest)], dim=1)


def test_a_shift_of_hue_rotates_the_circle_of_hues_and_is_decoded(paints):
    m = care.measure(hue_on_the_circle, paints, COLORS, augmentations=3, decode=True)
    assert m.families["hue"].heldout_ratio.mean < 0.01
    assert m.families["hue"].in_words() == "a rotation"
    assert m.decoding["network"]["hue"] > 0.9
    assert abs(m.decoding["network"]["brightness"]) < 0.2
    assert "hue" in str(m).split("R² of each parameter")[1]
    assert type(m).from_json(m.to_json()) == m


def test_what_does_not_see_the_hue_is_invariant_to_it_alone(paints):
    m = care.measure(value, paints[::4], COLORS, augmentations=3)
    assert m.families["hue"].in_words() == "invariant"
    assert m.families["color"].in_words() != "invariant"
    assert not m.decoding


def test_a_hue_only_policy_has_no_second_family():
    hues = dataclasses.replace(COLORS, brightness=0.0, contrast=0.0, saturation=0.0)
    assert [family.name for family in families_of(COLORS, 3)] == ["all", "color", "hue"]
    assert [family.name for family in families_of(hues, 3)] == ["all", "color"]
