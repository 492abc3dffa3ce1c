"""Robustness of planted models: what a model cannot see cannot harm it."""

import pytest
import torch
import torchvision.transforms.v2.functional as tv

from care.augment import ImagePolicy, apply
from care.data import Samples
from care.evaluate import Downstream, measure_robustness
from care.evaluate.robustness.corruptions import CORRUPTIONS, corrupted, noisy
from care.evaluate.robustness.measure import robustness_figure_of, robustness_table

POLICY = ImagePolicy(size=16)
LEVELS = torch.tensor([[0.4, 0.6], [0.05, 0.95]])  # near to and far from the middle gray, by class


def pictures(n, seed):
    """Plain gray pictures: of the class "far", very dark or very light."""
    generator = torch.Generator().manual_seed(seed)
    labels, side = torch.arange(n) % 2, torch.randint(2, (n,), generator=generator)
    levels = LEVELS[labels, side] + 0.002 * torch.randn(n, generator=generator)
    images = (255 * levels).round().to(torch.uint8)[:, None, None, None].expand(-1, 3, 16, 16).contiguous()
    return Samples(images, labels, ("near", "far"), name="grays")


def brightness(images):
    """How far the mean of a picture is from the middle gray, and nothing else."""
    return (images.mean((1, 2, 3)) - 0.5).abs()[:, None]


@pytest.fixture(scope="module")
def grays():
    return Downstream("grays", pictures(200, 0), pictures(100, 1), pictures(60, 2))


@pytest.fixture(scope="module")
def by_brightness(grays):
    return measure_robustness(brightness, grays, POLICY, name="by brightness")


def test_a_model_of_brightness_falls_under_brightness_alone(by_brightness):
    assert by_brightness.clean == 1
    assert set(by_brightness.curves) == set(CORRUPTIONS)
    for corruption, curve in by_brightness.curves.items():
        assert (min(curve) < 0.7) == (corruption == "brightness"), corruption
        assert corruption == "brightness" or min(curve) == 1


def test_its_fall_is_what_can_be_computed_by_hand(by_brightness, grays):
    """The rule is a threshold in the middle between |level − ½| = 0.1 and 0.45."""
    level = grays.test.inputs[:, 0, 0, 0] / 255
    for strength, found in zip(CORRUPTIONS["brightness"], by_brightness.curves["brightness"], strict=True):
        far = (strength * level - 0.5).abs() > 0.275
        assert found == pytest.approx((far.long() == grays.test.labels).double().mean().item())


def test_means(by_brightness):
    falls = by_brightness.curves["brightness"]
    assert by_brightness.mean == pytest.approx((sum(falls) / 5 + 7) / 8)
    table = robustness_table({"a": by_brightness, "b": by_brightness})
    assert f"{20 * sum(falls):.2f} %" in table
    assert by_brightness.to_json()["corruptions"]["hue"]["strengths"] == [0.1, 0.2, 0.3, 0.4, 0.5]
    figure = robustness_figure_of({"a": by_brightness, "b": by_brightness})
    panel = figure.axes[0]
    assert panel.get_title(loc="left") == "brightness"
    assert [list(line.get_ydata()) for line in panel.lines] == 2 * [[100 * y for y in (by_brightness.clean, *falls)]]


@pytest.mark.parametrize(
    ("corruption", "strength", "theirs"),
    [
        ("brightness", 0.4, lambda x: tv.adjust_brightness(x, 0.4)),
        ("contrast", 0.2, lambda x: tv.adjust_contrast(x, 0.2)),
        ("saturation", 0.0, lambda x: tv.rgb_to_grayscale(x, 3)),
        ("hue", 0.3, lambda x: tv.adjust_hue(x, 0.3)),
        ("blur", 1 / 16, lambda x: tv.gaussian_blur(x, [7, 7], [1.0, 1.0])),
        ("solarize", 0.3, lambda x: tv.solarize(x, 0.3)),
        ("crop", 0.25, lambda x: tv.resized_crop(x, 4, 4, 8, 8, [16, 16], antialias=True)),
    ],
)
def test_corruptions_are_those_of_torchvision(corruption, strength, theirs, generator):
    images = torch.rand(3, 3, 16, 16, generator=generator)
    clean = ImagePolicy(size=16).unchanged(3, (16, 16))
    torch.testing.assert_close(apply(images, corrupted(clean, corruption, strength)), theirs(images), rtol=0, atol=2e-5)


def test_noise_has_its_deviation_and_does_not_depend_on_the_batches():
    gray, device = torch.full((130, 3, 16, 16), 0.5), torch.device("cpu")
    whole = noisy(lambda x: x, 0.1, 16, device, seed=0)(gray)
    model = noisy(lambda x: x, 0.1, 16, device, seed=0)
    assert torch.equal(torch.cat([model(part) for part in gray.split(50)]), whole)
    assert whole.std().item() == pytest.approx(0.1, rel=0.02)
    assert whole.mean().item() == pytest.approx(0.5, abs=0.001)
    assert whole.min() >= 0
    assert not torch.equal(whole[0], whole[1])


def test_point_clouds_cannot_be_corrupted(grays):
    clouds = Samples(torch.randn(30, 4, 3), torch.arange(30) % 2, ("a", "b"), name="clouds")
    with pytest.raises(ValueError, match="corruptions are for images, and clouds holds point clouds"):
        measure_robustness(brightness, Downstream("clouds", clouds, clouds), POLICY)
