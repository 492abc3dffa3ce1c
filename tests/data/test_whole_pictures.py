"""Whole pictures in square batches: a random crop reaches their borders, in the proportions that torchvision has."""

import numpy as np
import pytest
import torch
from on_disk import picture
from PIL import Image
from scipy.stats import ks_2samp
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional

from care.augment import ImagePolicy, apply, relative
from care.augment.boxes import central_box
from care.augment.coordinates import IMAGE_NAMES
from care.data.readers.decoding import decode, decode_whole
from care.objective.views import ViewPlan, ViewSpec, make_view
from care.whole_pictures import row_bytes, side_of, squares_and_aspects, write_row

CALM = {"flip": 0.0, "color": 0.0, "gray": 0.0, "blur": 0.0}
SIDE = 512  # pixels are rounded, of the picture by torchvision and of the square by us: both have many


def batch_of(*squares_and_their_aspects):
    side = squares_and_their_aspects[0][0].shape[1]
    batch = np.zeros((len(squares_and_their_aspects), row_bytes(side)), np.uint8)
    for row, (square, aspect) in zip(batch, squares_and_their_aspects, strict=True):
        write_row(row, square, aspect)
    return torch.from_numpy(batch)


@pytest.mark.parametrize("aspect", [1.0, 4 / 3, 3 / 4, 17.3, 1 / 200, 1000.0])
def test_a_row_holds_a_square_and_its_aspect(aspect):
    square = np.random.default_rng(0).integers(0, 256, (3, 7, 7), dtype=np.uint8)
    batch = batch_of((square, aspect), (255 - square, 1.0))
    squares, aspects = squares_and_aspects(batch)
    assert side_of(batch) == 7
    assert np.array_equal(squares.numpy(), np.stack([square, 255 - square]))
    assert aspects[0].item() == pytest.approx(min(aspect, 256.0), rel=2e-4)
    assert aspects[1].item() == 1.0


def test_other_inputs_are_left_alone():
    for inputs in (torch.rand(2, 3, 5, 6), torch.rand(2, 9, 3)):
        assert squares_and_aspects(inputs) == (inputs, None)


def boxes_in_pictures(policy, width, height, n, generator):
    """Share of the area, aspect and center of n boxes of a policy, in the proportions of a picture of this size."""
    aspect = torch.full((n,), width / height)
    p = policy.from_numbers(policy.random_numbers(n, (SIDE, SIDE), generator), (SIDE, SIDE), aspect)
    tall, wide = p.height / SIDE, p.width / SIDE
    center = (p.left / SIDE + wide / 2, p.top / SIDE + tall / 2)
    return {"area": tall * wide, "aspect": wide / tall * width / height, "x": center[0], "y": center[1]}


def torchvisions_boxes(policy, width, height, n):
    torch.manual_seed(0)
    crop = v2.RandomResizedCrop(policy.size, policy.scale, policy.ratio)
    empty = torch.empty(3, height, width, dtype=torch.uint8)
    drawn = [crop.make_params([empty]) for _ in range(n)]
    top, left, tall, wide = (torch.tensor([p[k] for p in drawn]).float() for k in ("top", "left", "height", "width"))
    x, y = (left + wide / 2) / width, (top + tall / 2) / height
    return {"area": tall * wide / (height * width), "aspect": wide / tall, "x": x, "y": y}


@pytest.mark.parametrize(("width", "height"), [(1200, 800), (800, 1200), (3000, 1000), (1000, 1000)])
def test_boxes_are_distributed_as_torchvisions(width, height, generator):
    policy, n = ImagePolicy(size=224), 4000
    ours = boxes_in_pictures(policy, width, height, n, generator)
    theirs = torchvisions_boxes(policy, width, height, n)
    for name, values in theirs.items():
        assert ks_2samp(ours[name].numpy(), values.numpy()).pvalue > 1e-3, name


@pytest.mark.parametrize(("width", "height"), [(1000, 100), (100, 1000)])
def test_where_no_try_fits_the_box_is_torchvisions(width, height, generator):
    """Ninety percent of a picture ten times as long as wide, with an aspect near 1, do not exist."""
    policy = ImagePolicy(size=224, scale=(0.9, 1.0))
    ours = boxes_in_pictures(policy, width, height, 20, generator)
    for name, values in torchvisions_boxes(policy, width, height, 20).items():
        assert torch.allclose(ours[name], values, atol=0.02), name


def test_differences_of_coordinates_are_those_of_the_boxes_in_the_pictures(generator):
    """As AugSelf predicts them: the logarithms of the sides of two boxes of a picture, in its own pixels."""
    policy, side, n = ImagePolicy(size=16), 64, 50
    pictures = [(300, 200), (200, 300), (900, 100)]
    shapes = torch.tensor([pictures[i % 3] for i in range(n)], dtype=torch.float32)
    black = np.zeros((3, side, side), np.uint8)
    batch = batch_of(*((black, width / height) for width, height in shapes.tolist()))
    drawn = [policy.random_numbers(n, (side, side), generator) for _ in range(2)]
    theta = [make_view(policy, batch, numbers, 1)[1] for numbers in drawn]
    boxes = [policy.from_numbers(numbers, (side, side), shapes[:, 0] / shapes[:, 1]) for numbers in drawn]
    tall, wide = (torch.stack([getattr(p, name) / side for p in boxes]) for name in ("height", "width"))
    pixels = {"wide": wide * shapes[:, 0], "tall": tall * shapes[:, 1]}
    found = relative(*theta)
    expected = {
        "scale": (pixels["wide"] * pixels["tall"]).log() / 2,
        "aspect": (pixels["wide"] / pixels["tall"]).log(),
        "x": torch.stack([p.left / side for p in boxes]) + wide / 2,
        "y": torch.stack([p.top / side for p in boxes]) + tall / 2,
    }
    for name, (one, two) in expected.items():
        torch.testing.assert_close(found[:, IMAGE_NAMES.index(name)], two - one, rtol=1e-4, atol=1e-3)


def test_crops_of_a_file_reach_its_borders_and_those_of_its_center_square_do_not(tmp_path, generator):
    """As often as torchvision's crops of the whole picture: the stripes are red on the left, blue on the right."""
    picture(0).resize((640, 384), Image.Resampling.NEAREST).save(tmp_path / "a.png")
    policy, n = ImagePolicy(size=16, scale=(0.3, 1.0), **CALM), 600
    batch = batch_of(decode_whole(tmp_path / "a.png", 96)).expand(n, -1)
    whole, _ = make_view(policy, batch, policy.random_numbers(n, (96, 96), generator))
    square = torch.from_numpy(decode(tmp_path / "a.png", 96)).expand(n, -1, -1, -1)
    center = apply(square, policy.sample(n, (96, 96), generator))
    torch.manual_seed(0)
    crop = v2.RandomResizedCrop(16, policy.scale, policy.ratio, antialias=True)
    original = functional.to_image(Image.open(tmp_path / "a.png"))
    theirs = torch.stack([crop(original) for _ in range(n)]) / 255
    expected = red_on_the_left(theirs)
    assert 0.2 < expected < 0.8
    assert red_on_the_left(whole) == pytest.approx(expected, abs=0.08)
    assert red_on_the_left(center) == 0


def red_on_the_left(views):
    """The share of views that see the red stripe."""
    return ((views[:, 0] - views[:, 2]) > 0.5).flatten(1).any(1).float().mean().item()


def test_a_view_is_torchvisions_crop_of_the_picture(generator):
    """The same box of the picture itself, resized: squeezing a smooth picture before costs less than 2 levels."""
    y, x = torch.meshgrid(torch.linspace(0, 1, 200), torch.linspace(0, 3, 300), indexing="ij")
    smooth = (torch.stack([x / 3, y, (x + y) / 4]) * 255).to(torch.uint8)
    squeezed = functional.resize(smooth, [100, 100], antialias=True)
    policy = ImagePolicy(size=32, **CALM)
    numbers = policy.random_numbers(20, (100, 100), generator)
    batch = batch_of((squeezed.numpy(), 1.5)).expand(20, -1)
    views, _ = make_view(policy, batch, numbers)
    p = policy.from_numbers(numbers, (100, 100), torch.full((20,), 1.5))
    for view, top, left, height, width in zip(views, p.top, p.left, p.height, p.width, strict=True):
        box = [int(2 * top), int(3 * left), int(2 * height), int(3 * width)]
        theirs = functional.resized_crop(smooth.float(), *box, [32, 32], antialias=True)
        assert (view * 255 - theirs).abs().max() < 2


@pytest.mark.parametrize("number", range(4))
def test_without_a_crop_the_view_is_the_center_square(tmp_path, number, generator):
    picture(number).resize((160, 100), Image.Resampling.NEAREST).save(tmp_path / "a.png")
    policy = ImagePolicy(size=32, crop=0.0, **CALM)
    batch = batch_of(decode_whole(tmp_path / "a.png", 64))
    view, _ = make_view(policy, batch, policy.random_numbers(1, (64, 64), generator))
    square = torch.from_numpy(decode(tmp_path / "a.png", 64))[None]
    expected = apply(square, policy.unchanged(1, (64, 64)))
    assert central_box((64, 64), 1.0) == (0, 0, 64, 64)
    assert (view - expected).abs().mean() < 0.02


def test_sideways_pictures_are_upright_with_the_aspect_that_is_seen(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    picture(0).save(tmp_path / "a.jpg", exif=exif, quality=95)  # 40 × 24, seen as 24 × 40
    square, aspect = decode_whole(tmp_path / "a.jpg", 16)
    assert aspect == pytest.approx(24 / 40)
    assert square[0, 0, 8] > 200  # red, on the left of what the camera saw, is at the top
    assert square[2, 0, 8] < 90


def test_shares_of_a_batch_are_those_of_the_whole(generator):
    """Processes draw the same views of their rows as one process draws of all."""
    rng = np.random.default_rng(0)
    rows = [(rng.integers(0, 256, (3, 24, 24), dtype=np.uint8), aspect) for aspect in (0.5, 1.0, 1.5, 2.0, 3.0, 0.7)]
    batch, plan = (
        batch_of(*rows),
        ViewPlan((ViewSpec(ImagePolicy(size=16), 6), ViewSpec(ImagePolicy(size=16), 3)), (0, 1)),
    )
    whole = plan.draw(batch, 6, slice(0, 6), torch.Generator().manual_seed(3))
    parts = [
        plan.draw(batch[r], 6, r, torch.Generator().manual_seed(3)) for r in (slice(0, 2), slice(2, 4), slice(4, 6))
    ]
    for position, view in enumerate(whole):
        assert torch.equal(view.inputs, torch.cat([part[position].inputs for part in parts]))
