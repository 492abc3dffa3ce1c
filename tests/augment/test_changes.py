"""Changes by name against torchvision's functions, and what cannot be read."""

import dataclasses

import pytest
import torch
from torchvision.transforms.v2 import functional as tv

from care.augment import ImagePolicy, apply, changed, identity, read_changes

SIZE = 32


@pytest.fixture
def images(generator):
    return (torch.rand(2, 3, 48, 64, generator=generator) * 255).to(torch.uint8)


def view(images, text, **settings):
    """The pictures with the changes, and the policy's view of them without."""
    unchanged = ImagePolicy(size=SIZE, center=0.875).unchanged(len(images), (48, 64))
    return apply(images, changed(dataclasses.replace(unchanged, **settings), read_changes(text)))


def plain(images):
    return tv.resized_crop(tv.to_dtype(images, torch.float32, scale=True), 3, 11, 42, 42, [SIZE, SIZE], antialias=True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("brightness=1", lambda x: x),
        ("brightness=1.3", lambda x: tv.adjust_brightness(x, 1.3)),
        ("contrast=0.5", lambda x: tv.adjust_contrast(x, 0.5)),
        ("saturation=2", lambda x: tv.adjust_saturation(x, 2.0)),
        ("hue=+0.1", lambda x: tv.adjust_hue(x, 0.1)),
        ("hue=-0.5", lambda x: tv.adjust_hue(x, -0.5)),
        ("flip=1", tv.horizontal_flip),
        ("gray=1", lambda x: tv.rgb_to_grayscale(x, num_output_channels=3)),
        ("gray=0,flip=0", lambda x: x),
        ("blur=0.7", lambda x: tv.gaussian_blur(x, [7, 7], [0.7, 0.7])),
        (" hue = 0.1 , brightness=1.3", lambda x: tv.adjust_hue(tv.adjust_brightness(x, 1.3), 0.1)),
    ],
)
def test_a_change_is_what_torchvision_does(text, expected, images):
    torch.testing.assert_close(view(images, text), expected(plain(images)), atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("text", "box"),
    [
        ("zoom=0.5", (13, 21, 21, 21)),  # a side of 42, about the same center (24, 32)
        ("x=0.25,zoom=0.5", (13, 32, 21, 21)),
        ("y=-0.25,zoom=0.5", (3, 21, 21, 21)),
        ("x=0.1", (3, 15, 42, 42)),
        ("x=1,y=1", (6, 22, 42, 42)),  # the corner is as far as it goes
        ("x=-1,y=-1,zoom=0.5", (0, 0, 21, 21)),
        ("zoom=10", (0, 8, 48, 48)),  # the largest square
    ],
)
def test_the_crop_moves_and_stays_inside_the_picture(text, box, images):
    unchanged = ImagePolicy(size=SIZE, center=0.875).unchanged(2, (48, 64))
    p = changed(unchanged, read_changes(text))
    for found, wanted in zip((p.top, p.left, p.height, p.width), box, strict=True):
        assert (found - wanted).abs().max() <= 1  # half pixels may be rounded either way
    assert ((p.top >= 0) & (p.top + p.height <= 48) & (p.left >= 0) & (p.left + p.width <= 64)).all()
    expected = tv.resized_crop(
        tv.to_dtype(images, torch.float32, scale=True),
        *(int(edge[0]) for edge in (p.top, p.left, p.height, p.width)),
        [SIZE, SIZE],
        antialias=True,
    )
    torch.testing.assert_close(apply(images, p), expected, atol=1e-5, rtol=0)


def test_a_blur_takes_the_kernel_that_is_there(images):
    expected = tv.gaussian_blur(plain(images), [3, 3], [2.0, 2.0])
    torch.testing.assert_close(view(images, "blur=2", kernel_size=3), expected, atol=1e-5, rtol=0)


def test_a_wide_blur_fits_a_small_picture():
    small = torch.zeros(1, 3, 8, 8, dtype=torch.uint8)
    assert apply(small, changed(identity(1, (8, 8), 8), {"blur": 50.0})).shape == (1, 3, 8, 8)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("hue", "cannot read the change 'hue': write it like"),
        ("", "cannot read the change"),
        ("hue=0.1,", "cannot read the change"),
        ("color=1", "unknown change 'color': choose one of brightness, contrast, .* gray, blur"),
        ("hue=red", "hue must be a number, got 'red'"),
        ("hue=nan", "hue must be a finite number"),
        ("brightness=inf", "brightness must be a finite number"),
        ("hue=0.6", "hue must be a fraction of the hue circle from -0.5 to 0.5, got 0.6"),
        ("brightness=0", "brightness must be a factor above 0"),
        ("brightness=101", "at most 100"),
        ("zoom=-1", "zoom must be a factor"),
        ("flip=0.5", "flip must be 0 or 1, got 0.5"),
        ("blur=0", "blur must be the width"),
        ("x=1.5", "x must be a shift in sides"),
        ("hue=0.1,hue=0.2", "hue is given twice"),
    ],
)
def test_what_cannot_be_read_is_refused_in_a_sentence(text, words):
    with pytest.raises(ValueError, match=words) as refused:
        read_changes(text)
    assert "\n" not in str(refused.value)


def test_values_are_checked_however_they_come():
    with pytest.raises(ValueError, match="hue must be a fraction of the hue circle"):
        changed(identity(1, (8, 8), 8), {"hue": 2.0})
