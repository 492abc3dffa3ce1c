"""What is drawn: the distributions, their independence, and the presets."""

import dataclasses
import itertools

import pytest
import scipy.stats
import torch
from torchvision.transforms import v2

from care.augment import PRESETS, ImageParameters, ImagePolicy, PointPolicy, policy_named, simclr


def drawn(p):
    return {name: tensor.double() for name, tensor in p._tensors()}


@pytest.mark.parametrize("input_shape", [(32, 32), (40, 90), (20, 100)], ids=str)
def test_crops_have_torchvisions_distribution(input_shape, generator):
    """Two-sample tests on each coordinate of the box; the last shape uses torchvision's fallback."""
    n = 8000
    p = simclr().sample(n, input_shape, generator)
    image = torch.empty(3, *input_shape)
    transform = v2.RandomResizedCrop(32, scale=(0.08, 1.0))
    torch.manual_seed(0)
    theirs = [transform.make_params([image]) for _ in range(n)]
    for name in ("top", "left", "height", "width"):
        result = scipy.stats.ks_2samp(getattr(p, name).numpy(), [box[name] for box in theirs])
        assert result.pvalue > 1e-4, name


def test_boxes_lie_inside_the_image(generator):
    for input_shape in ((32, 32), (7, 300), (1, 1), (200, 3)):
        p = simclr().sample(2000, input_shape, generator)
        assert (p.top >= 0).all()
        assert (p.left >= 0).all()
        assert (p.height >= 1).all()
        assert (p.width >= 1).all()
        assert (p.top + p.height <= input_shape[0]).all()
        assert (p.left + p.width <= input_shape[1]).all()


def test_probabilities_and_ranges(generator):
    n = 20_000
    policy = ImagePolicy(size=32, flip=0.3, color=0.7, gray=0.1, blur=0.4, solarize=0.25, sigma=(0.5, 1.5), hue=0.2)
    p = policy.sample(n, (32, 32), generator)
    for name, probability in (("flip", 0.3), ("gray", 0.1), ("blur", 0.4), ("solarize", 0.25)):
        assert getattr(p, name).double().mean().item() == pytest.approx(probability, abs=0.02)
    jittered = p.brightness != 1
    assert jittered.double().mean().item() == pytest.approx(0.7, abs=0.02)
    for name, low, high in (
        ("brightness", 0.6, 1.4),
        ("contrast", 0.6, 1.4),
        ("saturation", 0.6, 1.4),
        ("hue", -0.2, 0.2),
    ):
        values = getattr(p, name)[jittered].double()
        assert scipy.stats.kstest(values, scipy.stats.uniform(low, high - low).cdf).pvalue > 1e-4
    assert (p.hue[~jittered] == 0).all()
    assert scipy.stats.kstest(p.sigma.double(), scipy.stats.uniform(0.5, 1.0).cdf).pvalue > 1e-4


def test_every_order_of_color_operations_is_equally_likely(generator):
    p = simclr().sample(24_000, (32, 32), generator)
    orders = [tuple(row) for row in p.order.tolist()]
    counts = [orders.count(order) for order in itertools.permutations(range(4))]
    assert sum(counts) == 24_000
    assert scipy.stats.chisquare(counts).pvalue > 1e-4


def test_parts_of_an_augmentation_are_independent(generator):
    """No pair of drawn numbers is correlated (boxes aside, whose corner depends on their size)."""
    values = drawn(simclr().sample(20_000, (32, 32), generator))
    names = ["height", "flip", "hue", "brightness", "gray", "blur", "sigma"]
    columns = torch.stack([values[name] for name in names if name != "hue"] + [values["order"][:, 0]])
    correlation = torch.corrcoef(columns) - torch.eye(len(columns))
    assert correlation.abs().max() < 0.04


def test_chunks_draw_independently(generator):
    """One augmentation per chunk, all different, and each shared by all images of its chunk."""
    chunks, m = 16, 16
    p = simclr().sample(chunks, (32, 32), generator).repeat(m)
    assert len(p) == chunks * m
    rows = p.to_vector().view(chunks, m, -1)
    assert torch.equal(rows, rows[:, :1].expand_as(rows))
    assert len(rows[:, 0].unique(dim=0)) == chunks
    # Over many draws, what one chunk gets says nothing about what the next one gets.
    many = simclr().sample(20_000, (32, 32), generator).to_vector()
    assert abs(torch.corrcoef(torch.stack([many[:-1, 12], many[1:, 12]]))[0, 1]) < 0.04


def test_the_same_generator_state_gives_the_same_draw():
    a, b = (simclr().sample(8, (32, 32), torch.Generator().manual_seed(3)) for _ in range(2))
    assert torch.equal(a.to_vector(), b.to_vector())


def test_changing_one_probability_changes_nothing_else():
    def draw(policy):
        return drawn(policy.sample(500, (32, 32), torch.Generator().manual_seed(3)))

    plain, grayer = draw(simclr()), draw(dataclasses.replace(simclr(), gray=0.9))
    assert {name for name in plain if not torch.equal(plain[name], grayer[name])} == {"gray"}


def test_identity_probability(generator):
    p = dataclasses.replace(simclr(), identity=0.3).sample(10_000, (32, 32), generator)
    words = [p.describe(i) for i in range(2000)]
    assert words.count("identity") / 2000 == pytest.approx(0.3, abs=0.04)
    usual = simclr().sample(2000, (32, 32), generator)
    assert sum(usual.describe(i) == "identity" for i in range(2000)) <= 3


def test_nothing_global_is_drawn(generator):
    before = torch.random.get_rng_state()
    simclr().sample(8, (32, 32), generator)
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize("name", PRESETS)
def test_presets_draw(name, generator):
    p = policy_named(name).sample(4, (256, 256), generator)
    assert isinstance(p, ImageParameters)
    assert len(p) == 4


def test_presets_hold_the_papers_numbers():
    cifar = policy_named("cifar10")
    assert (cifar.size, cifar.kernel_size, cifar.scale, cifar.sigma) == (32, 3, (0.08, 1.0), (0.1, 2.0))
    assert (cifar.brightness, cifar.contrast, cifar.saturation, cifar.hue) == (0.4, 0.4, 0.4, 0.1)
    assert (cifar.color, cifar.gray, cifar.blur, cifar.flip) == (0.8, 0.2, 0.5, 0.5)
    colors = policy_named("color_only")
    assert (colors.color, colors.hue, colors.brightness) == (1.0, cifar.hue, cifar.brightness)
    assert not any((colors.crop, colors.flip, colors.gray, colors.blur, colors.solarize))
    hues = policy_named("hue_only")
    assert (hues.color, hues.hue, hues.brightness, hues.contrast, hues.saturation) == (1.0, 0.5, 0.0, 0.0, 0.0)
    assert not any((hues.crop, hues.flip, hues.gray, hues.blur, hues.solarize))
    imagenet = policy_named("imagenet100_equivariance")
    assert (imagenet.size, imagenet.crop, imagenet.kernel_size) == (224, 0.0, 5)
    assert simclr(224, strength=1.0).kernel_size == 23


def test_only_switches_the_other_families_off(generator):
    color = simclr().only("color").sample(200, (32, 32), generator)
    assert (color.height == 32).all()
    assert not torch.stack([color.flip, color.gray, color.blur]).any()
    assert (color.brightness != 1).any()


def test_another_size_takes_the_blur_along():
    assert (simclr(32).resized(128).size, simclr(32).resized(128).kernel_size) == (128, 13)
    assert policy_named("mocov2").resized(32).kernel_size == 3
    assert simclr(32).resized(32) == simclr(32)


@pytest.mark.usefixtures("unchecked")
def test_unknown_families_are_refused():
    with pytest.raises(ValueError, match="unknown augmentation colour"):
        simclr().only("colour")


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"flip": 1.5}, "flip is a probability, got 1.5"),
        ({"identity": -0.1}, "identity is a probability"),
        ({"brightness": 2.0}, "brightness must be in"),
        ({"hue": 0.6}, "hue is a fraction of the hue circle"),
        ({"scale": (0.0, 1.0)}, "scale must be"),
        ({"ratio": (2.0, 1.0)}, "ratio must be"),
        ({"sigma": (0.0, 1.0)}, "sigma must be"),
        ({"kernel_size": 4}, "odd, got 4"),
        ({"kernel_size": 65}, "65 px needs more than 32"),
        ({"center": 0.0}, "center must be"),
        ({"size": 0}, "size must be"),
    ],
)
def test_settings_that_make_no_sense_are_refused(setting, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(simclr(), **setting)


def test_unknown_presets_are_refused():
    with pytest.raises(ValueError, match="choose one of simclr, cifar10"):
        policy_named("imagenet22k")


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(("policy", "input_shape"), [(simclr(), (32, 32)), (PointPolicy(), (5,))])
def test_a_generator_is_needed(policy, input_shape):
    """torch's own would be drawn from in silence, and never the same again."""
    before = torch.get_rng_state()
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'generator'"):
        policy.sample(3, input_shape)
    with pytest.raises(TypeError, match=r"sample takes a generator, such as torch.Generator\(\), and got None"):
        policy.sample(3, input_shape, None)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("cifar11", "unknown policy 'cifar11': choose one of simclr, .*; did you mean cifar10?"),
        ("hue", "did you mean hue_only?"),
        ("color", "did you mean color_kept or color_only?"),
        ("rotation", "did you mean rotations?"),
        ("rotations", "the policy rotations is for point clouds: for images choose one of simclr, "),
        ("", "unknown policy '': choose one of simclr, .*byol_second$"),
    ],
)
def test_a_policy_that_is_not_there_is_suggested(name, words):
    with pytest.raises(ValueError, match=words.replace("?", r"\?")):
        policy_named(name)


def test_a_policy_without_a_blur_has_none_at_any_size():
    for size in (16, 224):
        assert dataclasses.replace(simclr(32), kernel_size=1).resized(size).kernel_size == 1
