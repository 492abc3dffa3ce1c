import cmath
import math

import numpy as np
import pytest
import torch
from matplotlib.colors import hsv_to_rgb, rgb_to_hsv

from care.augment.color import shift_hue
from care.evaluate.retrieval.hue import IMAGES_AT_ONCE, hue_distance, mean_hue


def test_the_hue_of_one_pixel_is_that_of_matplotlib(generator):
    # Few levels per channel, so that two equal channels and grays occur.
    pixels = torch.randint(5, (2 * IMAGES_AT_ONCE, 3, 1, 1), generator=generator).double() / 4
    hue, _, _ = rgb_to_hsv(pixels[:, :, 0, 0].numpy()).T
    angle, strength = mean_hue(pixels)
    chroma = (pixels.amax(1) - pixels.amin(1))[:, 0, 0]
    colored = chroma > 0
    torch.testing.assert_close(strength, chroma)
    assert hue_distance(angle, torch.from_numpy(hue))[colored].max() < 1e-12
    assert ((angle >= 0) & (angle <= 1)).all()
    assert 0 < colored.sum() < len(pixels)


def test_the_mean_is_the_literal_circular_mean(generator):
    images = torch.randint(256, (4, 3, 5, 7), generator=generator, dtype=torch.uint8)
    angle, strength = mean_hue(images)
    for image, a, s in zip(images.numpy(), angle.tolist(), strength.tolist(), strict=True):
        rgb = image.reshape(3, -1).T / 255
        hues, chromas = rgb_to_hsv(rgb)[:, 0], rgb.max(1) - rgb.min(1)
        z = np.mean([c * cmath.exp(2j * math.pi * h) for h, c in zip(hues, chromas, strict=True)])
        assert abs(s * cmath.exp(2j * math.pi * a) - z) < 1e-6
        assert s == pytest.approx(abs(z), abs=1e-6)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float16, torch.float32, torch.float64])
def test_one_color_has_its_hue_and_gray_has_no_strength(dtype):
    colors = torch.from_numpy(hsv_to_rgb([[0.1, 1, 1], [0.9, 1, 0.5], [0.6, 0.5, 1], [0, 0, 0.7], [0, 0, 0]]))
    images = (colors * 255).round() / (1 if dtype == torch.uint8 else 255)
    angle, strength = mean_hue(images.to(dtype)[:, :, None, None].expand(-1, -1, 4, 4))
    torch.testing.assert_close(strength.double(), torch.tensor([1, 0.5, 0.5, 0, 0]).double(), atol=4e-3, rtol=0)
    torch.testing.assert_close(angle[:3].double(), torch.tensor([0.1, 0.9, 0.6]).double(), atol=4e-3, rtol=0)


def test_opposite_colors_cancel():
    red_and_cyan = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])[None, :, None, :]
    assert mean_hue(red_and_cyan).strength < 1e-6


def test_shifting_the_hue_shifts_the_mean(generator):
    images = torch.rand(6, 3, 8, 8, generator=generator, dtype=torch.float64)
    shift = torch.rand(6, generator=generator, dtype=torch.float64) - 0.5
    before, after = mean_hue(images), mean_hue(shift_hue(images, shift))
    torch.testing.assert_close(after.strength, before.strength)
    assert hue_distance(after.angle, before.angle + shift).max() < 1e-9


def test_distance_is_the_angle_between_unit_vectors(generator):
    a, b = 3 * torch.rand(2, 500, generator=generator, dtype=torch.float64) - 1
    angle = ((2 * math.pi * (a - b)).cos()).arccos() / (2 * math.pi)
    torch.testing.assert_close(hue_distance(a, b), angle, atol=1e-7, rtol=0)
    assert hue_distance(torch.tensor(0.95), torch.tensor(0.05)).item() == pytest.approx(0.1)


def test_normalized_images_are_refused_and_rounding_is_not():
    assert mean_hue(torch.tensor([1.00001, -1e-5, 0.0])[None, :, None, None]).strength == pytest.approx(1, abs=1e-4)
    with pytest.raises(ValueError, match="undo their normalization"):
        mean_hue(torch.full((1, 3, 2, 2), -0.5))
