"""`apply` against torchvision, image by image, with the same parameters."""

import dataclasses

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torchvision.transforms.v2 import functional as tv

from care.augment import ImagePolicy, PointPolicy, apply, color, compose, identity, rows, simclr
from care.augment.apply import augment_images

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
EVERYTHING = ImagePolicy(size=32, solarize=0.5, identity=0.1)


def pictures(n, input_shape, generator):
    """Noise on several scales: smooth areas, edges, grays, blacks and whites."""
    coarse = torch.rand(n, 3, 4, 4, generator=generator)
    images = tv.resize(coarse, list(input_shape)) + 0.2 * torch.randn(n, 3, *input_shape, generator=generator)
    images[::4] = images[::4].mean(1, keepdim=True)
    return (images * 255).clamp(0, 255).to(torch.uint8)


def torchvision_one(image, p, i):
    """Augmentation i of p applied to one image by torchvision's functional operations."""
    q = {f.name: getattr(p, f.name) for f in dataclasses.fields(p)}
    q = {name: value[i].tolist() if isinstance(value, torch.Tensor) else value for name, value in q.items()}
    x = tv.to_dtype(image, torch.float32, scale=True)
    x = tv.resized_crop(x, q["top"], q["left"], q["height"], q["width"], [q["size"], q["size"]], antialias=True)
    x = tv.horizontal_flip(x) if q["flip"] else x
    for operation in q["order"]:
        x = [
            lambda x: tv.adjust_brightness(x, q["brightness"]),
            lambda x: tv.adjust_contrast(x, q["contrast"]),
            lambda x: tv.adjust_saturation(x, q["saturation"]),
            lambda x: tv.adjust_hue(x, q["hue"]),
        ][operation](x)
    x = tv.rgb_to_grayscale(x, num_output_channels=3) if q["gray"] else x
    x = tv.gaussian_blur(x, [q["kernel_size"]] * 2, [q["sigma"]] * 2) if q["blur"] else x
    return tv.solarize(x, q["threshold"]) if q["solarize"] else x


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last], ids=["nchw", "nhwc"])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32], ids=["uint8", "float"])
@pytest.mark.parametrize(
    ("input_shape", "size", "n"),
    [((32, 32), 32, 48), ((96, 96), 32, 24), ((64, 64), 96, 16), ((48, 80), 40, 16), ((256, 256), 224, 4)],
    ids=lambda v: str(v),
)
def test_equals_torchvision(input_shape, size, n, dtype, memory_format, device, generator):
    policy = dataclasses.replace(simclr(size=size), solarize=0.3, identity=0.1)
    p = policy.sample(n, input_shape, generator)
    images = pictures(n, input_shape, generator)
    expected = torch.stack([torchvision_one(image, p, i) for i, image in enumerate(images)])
    inputs = images if dtype == torch.uint8 else images / 255
    views = apply(inputs.to(device, memory_format=memory_format), p.to(device))
    assert views.dtype == torch.float32
    assert views.is_contiguous(memory_format=memory_format)
    # Solarizing turns a rounding error at the threshold into a jump: such pixels are compared before the jump.
    jumped = (views.cpu() + expected - 1).abs() < 1e-4
    at_threshold = p.solarize[:, None, None, None] & jumped & ((expected - p.threshold).abs() < 1e-4)
    torch.testing.assert_close(torch.where(at_threshold, expected, views.cpu()), expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize("field", ["crop", "flip", "color", "gray", "blur", "solarize"])
def test_each_family_alone_does_something_and_equals_torchvision(field, generator):
    policy = dataclasses.replace(EVERYTHING.only(field), **{field: 1.0}, identity=0.0)
    p = policy.sample(16, (32, 32), generator)
    images = pictures(16, (32, 32), generator)
    views = apply(images, p)
    assert ((views - images / 255).abs().amax((1, 2, 3)) > 1e-3).sum() >= 12  # some pictures are gray, some σ tiny
    expected = torch.stack([torchvision_one(image, p, i) for i, image in enumerate(images)])
    torch.testing.assert_close(views, expected, atol=1e-4, rtol=0)


def test_the_identity_returns_the_image(generator):
    images = pictures(8, (32, 32), generator)
    assert torch.equal(apply(images, identity(8, (32, 32), 32)), images / 255)
    never = ImagePolicy(size=32, identity=1.0).sample(8, (32, 32), generator)
    assert torch.equal(apply(images, never), images / 255)


def test_the_test_view_of_imagenet(generator):
    """Resize to 256, cut the central 224: the same pixels."""
    images = pictures(2, (256, 256), generator)
    torch.testing.assert_close(
        apply(images, identity(2, (256, 256), 224, center=0.875)), images[..., 16:240, 16:240] / 255
    )


def test_values_stay_in_the_unit_interval(generator):
    images = pictures(64, (32, 32), generator)
    views = apply(images, EVERYTHING.sample(64, (32, 32), generator))
    assert views.min() >= -1e-6
    assert views.max() <= 1 + 1e-6


def test_float64_stays_float64(generator):
    images = pictures(8, (32, 32), generator)
    p = simclr().sample(8, (32, 32), generator)
    exact = apply(images.double() / 255, p)
    assert exact.dtype == torch.float64
    torch.testing.assert_close(apply(images, p).double(), exact, atol=1e-5, rtol=0)


def test_drawn_augmentations_can_be_replayed(generator):
    images = pictures(8, (32, 32), generator)
    p = EVERYTHING.sample(8, (32, 32), generator)
    assert torch.equal(apply(images, p), apply(images, p))
    shuffled = torch.randperm(8, generator=generator)
    torch.testing.assert_close(apply(images[shuffled], p[shuffled]), apply(images, p)[shuffled])


def test_composition_applies_the_innermost_first(generator):
    images = pictures(8, (64, 48), generator)
    a = simclr(size=32).sample(8, (64, 48), generator)
    b = simclr(size=24).sample(8, (32, 32), generator)
    c = simclr(size=16).sample(8, (24, 24), generator)
    expected = apply(apply(apply(images, a), b), c)
    assert torch.equal(apply(images, compose(c, b, a)), expected)
    assert torch.equal(apply(images, compose(c, compose(b, a))), expected)


def test_no_value_is_read_off_the_gpu(generator):
    """Fake tensors have shapes but no values: code that would read one raises on them."""
    p = EVERYTHING.sample(8, (32, 32), generator)
    with FakeTensorMode() as mode:
        fake = dataclasses.replace(p, **{name: mode.from_tensor(t).to("cuda") for name, t in p._tensors()})
        images = torch.empty(8, 3, 32, 32, dtype=torch.uint8, device="cuda")
        assert augment_images(images, fake).shape == apply(images, fake).shape == (8, 3, 32, 32)


@pytest.mark.parametrize("changes", [{}, {"gray": 1.0}, {"gray": 0.0, "blur": 1.0}, {"color": 1.0, "identity": 0.0}])
def test_picking_rows_changes_nothing(changes, generator, monkeypatch):
    """A CPU computes what is needed, a GPU everything: the views are the same, be it some, all or none of them."""
    images = torch.randint(256, (200, 3, 32, 32), dtype=torch.uint8, generator=generator)
    p = dataclasses.replace(EVERYTHING, **{"identity": 0.0, **changes} if changes else {}).sample(
        200, (32, 32), generator
    )
    picked = apply(images, p)
    for module in (rows, color):
        monkeypatch.setattr(module, "by_rows", lambda images: False)
    torch.testing.assert_close(apply(images, p), picked, atol=2e-6, rtol=0)


def test_gradients_reach_the_images(generator):
    """Against a difference quotient along a random direction."""
    images = 0.2 + 0.6 * torch.rand(30, 3, 16, 16, generator=generator, dtype=torch.float64)
    direction = torch.randn(images.shape, generator=generator, dtype=torch.float64)
    p = ImagePolicy(size=16, gray=0.5, color=1.0).sample(30, (16, 16), generator)
    leaf = images.clone().requires_grad_()
    (slope,) = torch.autograd.grad(apply(leaf, p).square().sum(), leaf)
    ends = [apply(images + h * direction, p).square().sum() for h in (1e-6, -1e-6)]
    torch.testing.assert_close((slope * direction).sum(), (ends[0] - ends[1]) / 2e-6, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (torch.zeros(3, 3, 32, 32), "3 inputs but 4 augmentations"),
        (torch.zeros(4, 1, 32, 32), r"must be \[n, 3, height, width\]"),
        (torch.zeros(4, 3, 32, 31), r"drawn for \(32, 32\) pixels, images of \(32, 31\)"),
        (torch.zeros(4, 3, 32, 32, dtype=torch.int64), "uint8 or floating point"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_images_that_do_not_fit_are_refused(images, message, generator):
    with pytest.raises(ValueError, match=message):
        apply(images, simclr().sample(4, (32, 32), generator))


@pytest.mark.usefixtures("unchecked")
def test_clouds_that_do_not_fit_are_refused(generator):
    with pytest.raises(ValueError, match="clouds of 10 points"):
        apply(torch.zeros(4, 9, 3), PointPolicy().sample(4, (10,), generator))
