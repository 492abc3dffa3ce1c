import math

import numpy as np
import pytest
import torch
from scipy.stats import kstest
from torchvision.transforms.v2.functional import InterpolationMode, rotate

from care.data import generate_shapes
from care.data.shapes import CLASSES, FACTORS, NUISANCE_FACTORS, Shapes, render
from care.data.silhouettes import SILHOUETTES

MIDDLE = {name: (low + high) / 2 for name, (low, high) in (FACTORS | NUISANCE_FACTORS).items()}
# White shapes on black: what is left is how much of each pixel is covered.
WHITE = {"saturation": 0.0, "value": 1.0, "contrast": 0.0, "ground value": 0.0}


@pytest.fixture(scope="module")
def shapes():
    return generate_shapes(4000, seed=1)


def picture_of(labels, size=32, **values):
    """Pictures of the classes `labels` in which everything that `values` do not say is in the middle of its range."""
    filled = {name: torch.as_tensor(value).expand(len(labels)) for name, value in (MIDDLE | values).items()}
    return render(labels, filled, size)


@pytest.fixture(scope="module")
def some(shapes):
    """The first 1,000: to draw all of them again takes longer, and shows no more."""
    factors = {name: values[:1000] for name, values in shapes.factors.items()}
    return Shapes(shapes.images[:1000], shapes.labels[:1000], factors)


@pytest.fixture(scope="module")
def masks(some):
    """How much of each pixel they cover."""
    return picture_of(some.labels, 32, **some.factors, **WHITE)[:, 0]


def moments(mask):
    """Area and centroid of each mask, in the coordinates of the factors."""
    size = mask.shape[-1]
    centers = (torch.arange(size) + 0.5) / size * 2 - 1
    area = mask.sum((1, 2))
    return area * (2 / size) ** 2, (mask.sum(1) @ centers) / area, (mask.sum(2) @ centers) / area


def test_the_same_seed_gives_the_same_pictures():
    threads = torch.get_num_threads()
    a, b, c = generate_shapes(20, seed=1), generate_shapes(20, seed=1), generate_shapes(20, seed=2)
    assert torch.equal(a.images, b.images)
    assert not torch.equal(a.images, c.images)
    assert not torch.equal(a.factors["hue"], c.factors["hue"])
    assert (a.images.dtype, a.images.shape) == (torch.uint8, (20, 3, 32, 32))
    assert torch.get_num_threads() == threads
    assert (a.labels.dtype, a.factors["hue"].dtype) == (torch.int64, torch.float32)


@pytest.mark.parametrize("n", [1, 7, 250, 251, 600])
def test_a_picture_does_not_depend_on_how_many_there_are(shapes, n):
    few = generate_shapes(n, seed=1)
    assert torch.equal(few.images, shapes.images[:n])
    assert torch.equal(few.labels, shapes.labels[:n])
    assert all(torch.equal(few.factors[name], shapes.factors[name][:n]) for name in FACTORS)


def test_factors_do_not_depend_on_the_size_and_a_larger_picture_shows_the_same(shapes):
    large = generate_shapes(300, seed=1, size=64)
    assert all(torch.equal(large.factors[name], shapes.factors[name][:300]) for name in FACTORS)
    reduced = torch.nn.functional.avg_pool2d(large.images / 255, 2)
    assert (reduced - shapes.images[:300] / 255).abs().mean() < 0.03


def test_classes_have_equal_shares(shapes):
    assert shapes.classes == CLASSES
    assert shapes.labels.bincount().tolist() == [400] * 10


@pytest.mark.parametrize("name", FACTORS)
def test_factors_are_uniform(shapes, name):
    low, high = FACTORS[name]
    assert low <= shapes.factors[name].min()
    assert shapes.factors[name].max() < high
    assert kstest(shapes.factors[name].numpy(), "uniform", args=(low, high - low)).pvalue > 0.01


def test_factors_know_nothing_of_each_other_and_of_the_class(shapes):
    """Correlations of 4000 independent pairs exceed 4/√4000 = 0.063 once in 16000 times."""
    columns = [*shapes.factors.values(), *torch.nn.functional.one_hot(shapes.labels).float().T]
    correlations = np.abs(np.corrcoef(torch.stack(columns).numpy()))[: len(FACTORS)]
    np.fill_diagonal(correlations, 0)
    assert correlations.max() < 0.063


@pytest.mark.parametrize("name", SILHOUETTES)
def test_silhouettes_are_centered_and_fit_the_unit_circle(name):
    line = torch.linspace(-1.2, 1.2, 601)
    v, u = torch.meshgrid(line, line, indexing="ij")
    inside = SILHOUETTES[name].signed_distance(u[None], v[None])[0] < 0
    assert torch.hypot(u[inside].mean(), v[inside].mean()) < 0.005
    assert torch.hypot(u, v)[inside].max() == pytest.approx(1, abs=0.01)


def test_the_centroid_is_where_the_factors_say(some, masks):
    _, x, y = moments(masks)
    torch.testing.assert_close(x, some.factors["x"], atol=0.02, rtol=0)
    torch.testing.assert_close(y, some.factors["y"], atol=0.02, rtol=0)


def test_the_area_grows_with_the_square_of_the_scale(some, masks):
    """One constant of proportionality per class; that of the disc is π."""
    area, _, _ = moments(masks)
    ratio = area / some.factors["scale"].square()
    for label in range(10):
        mine = ratio[some.labels == label]
        torch.testing.assert_close(mine, mine.median().expand_as(mine), rtol=0.05, atol=0)
    assert ratio[some.labels == 0].median() == pytest.approx(math.pi, rel=0.01)


def test_the_colorful_pixels_of_the_picture_are_the_shape(some, masks):
    """Found in the finished picture, noise and all, by chroma alone: where it is, how large, and of which hue."""
    images = some.images / 255
    colorful = (images.amax(1) - images.amin(1) > 0.18).float()
    area, x, y = moments(colorful)
    truth, _, _ = moments(masks)
    assert (x - some.factors["x"]).abs().quantile(0.95) < 0.04
    assert (y - some.factors["y"]).abs().quantile(0.95) < 0.04
    assert torch.corrcoef(torch.stack([area, truth]))[0, 1] > 0.98
    away = (mean_hue(images, colorful) - some.factors["hue"] + 0.5) % 1 - 0.5
    assert away.abs().quantile(0.95) < 0.02


def mean_hue(images, weights):
    """The circular mean hue, as a fraction of the hue circle, within 0.004 of HSV's.

    It is the argument of R + G exp(2πi/3) + B exp(4πi/3).
    """
    red, green, blue = (images * weights[:, None]).mean((2, 3)).unbind(1)
    return torch.atan2(math.sqrt(0.75) * (green - blue), red - (green + blue) / 2) / (2 * math.pi)


@pytest.mark.parametrize("name", CLASSES)
def test_turning_a_shape_is_turning_its_picture(name):
    """The texture turns along; the black background cannot tell."""
    label, looks = torch.tensor([CLASSES.index(name)]), {"scale": 0.7, "x": 0.0, "y": 0.0, "ground value": 0.0}
    upright = picture_of(label, 128, angle=0.0, **looks)
    for turns in (0.1, 0.25, 0.7):
        turned = picture_of(label, 128, angle=turns, **looks)
        expected = rotate(upright, 360 * turns, InterpolationMode.BILINEAR)
        assert (turned - expected).abs().mean() < 0.004
        assert (turned - expected).abs().max() < 0.35


@pytest.mark.parametrize("name", CLASSES)
def test_shapes_have_the_symmetry_they_are_said_to_have(name):
    """A turn by 1/symmetry changes nothing; a turn by half of it does."""
    label, symmetry = torch.tensor([CLASSES.index(name)]), SILHOUETTES[name].symmetry
    upright, full, half = (
        picture_of(label, 64, angle=turns, x=0.0, y=0.0, **WHITE)
        for turns in ((0.0, 1 / symmetry, 0.5 / symmetry) if symmetry else (0.0, 0.123, 0.123))
    )
    torch.testing.assert_close(full, upright, atol=1e-3, rtol=0)
    assert symmetry == 0 or (half - upright).abs().sum() > 0.1 * upright.sum()


@pytest.mark.parametrize("size", [8, 32, 96])
def test_shapes_are_wholly_in_the_picture(size):
    for x, y in ((-1, -1), (1, -1), (1, 1)):
        for angle in (0.0, 0.1, 0.2, 0.3):
            corner = {"x": x * FACTORS["x"][1], "y": y * FACTORS["y"][1], "scale": FACTORS["scale"][1]}
            mask = picture_of(torch.arange(10), size, angle=angle, **corner, **WHITE)
            # A shape that just touches the border half covers the pixels there.
            assert max(mask[..., 0].max(), mask[..., -1].max(), mask[..., 0, :].max(), mask[..., -1, :].max()) < 1


def test_the_class_is_not_in_the_mean_color(shapes):
    colors = torch.nn.functional.pad(shapes.images.float().mean((2, 3)) / 255, (0, 1), value=1.0)
    assert accuracy_of_a_linear_fit(colors, shapes.labels) < 0.2


def test_shapes_tell_the_class_once_position_scale_and_color_are_taken_away(shapes):
    """The nearest neighbor of an upright mask of fixed scale has the right class: the outlines all differ."""
    upright = picture_of(shapes.labels[:500], angle=shapes.factors["angle"][:500] * 0.05, x=0.0, y=0.0, **WHITE)
    distance = torch.cdist(upright.flatten(1), upright.flatten(1)).fill_diagonal_(torch.inf)
    assert (shapes.labels[:500][distance.argmin(1)] == shapes.labels[:500]).float().mean() > 0.99


def accuracy_of_a_linear_fit(features, labels):
    """Held-out accuracy of least squares on one-hot labels."""
    half = len(labels) // 2
    weights = torch.linalg.lstsq(features[:half], torch.nn.functional.one_hot(labels[:half]).float()).solution
    return ((features[half:] @ weights).argmax(1) == labels[half:]).float().mean()


@pytest.mark.parametrize(("arguments", "sentence"), [((0, 1), "at least one shape"), ((5, 1, 7), "8 × 8 pixels")])
def test_senseless_requests_are_refused(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        generate_shapes(*arguments)
