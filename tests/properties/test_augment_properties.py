"""What holds for augmentations whatever the policy and whatever the picture."""

import dataclasses

import hypothesis.strategies as st
import torch
from hypothesis import given

from care.augment import COLOR_OPERATIONS, ImagePolicy, Parameters, apply, compose, identity

UNIT = st.floats(0, 1)


def between(low, high):
    """An interval low ≤ a ≤ b ≤ high."""
    return st.tuples(st.floats(low, high), st.floats(low, high)).map(lambda pair: tuple(sorted(pair)))


@st.composite
def policies(draw):
    size = draw(st.integers(1, 12))
    families = ("crop", "flip", "color", "gray", "blur", "solarize", "identity")
    chances = {name: draw(st.sampled_from([0.0, 0.5, 1.0])) for name in families}
    strengths = {name: draw(UNIT) for name in ("brightness", "contrast", "saturation")}
    return ImagePolicy(
        size=size,
        scale=draw(between(0.01, 1)),
        ratio=draw(between(0.2, 5)),
        sigma=draw(between(0.01, 3)),
        center=draw(st.floats(0.01, 1)),
        hue=draw(st.floats(0, 0.5)),
        kernel_size=draw(st.integers(0, size - 1)) * 2 + 1,
        threshold=draw(UNIT),
        **chances,
        **strengths,
    )


SOURCES = st.tuples(st.integers(1, 20), st.integers(1, 20))
SEEDS = st.integers(0, 2**32)


def sampled(policy, input_shape, seed, n=3):
    return policy.sample(n, input_shape, torch.Generator().manual_seed(seed))


KINDS = st.tuples(SEEDS, st.sampled_from([None, 0, 255, 77]), st.booleans())


def pictures(kind, input_shape, n=3):
    """Noise, or one color, black and white among them; uint8, or floating point."""
    seed, level, whole_numbers = kind
    generator = torch.Generator().manual_seed(seed)
    images = torch.randint(256, (n, 3, *input_shape), dtype=torch.uint8, generator=generator)
    images = images if level is None else torch.full_like(images, level)
    return images if whole_numbers else images / 255


@given(policies(), SOURCES, SEEDS)
def test_parameters_are_in_their_ranges(policy, input_shape, seed):
    (height, width), p = input_shape, sampled(policy, input_shape, seed)
    assert (p.top >= 0).all()
    assert (p.left >= 0).all()
    assert (p.height >= 1).all()
    assert (p.width >= 1).all()
    assert (p.top + p.height <= height).all()
    assert (p.left + p.width <= width).all()
    for name in COLOR_OPERATIONS[:3]:
        strength = getattr(policy, name)
        assert ((getattr(p, name) - 1).abs() <= strength + 1e-6).all()
    assert (p.hue.abs() <= policy.hue + 1e-6).all()
    low, high = policy.sigma
    assert ((p.sigma >= low - 1e-6) & (p.sigma <= high + 1e-6)).all()
    assert (p.order.sort(dim=1).values == torch.arange(4)).all()
    for name in ("flip", "gray", "blur", "solarize"):
        chance = getattr(policy, name)
        assert not getattr(p, name).any() if chance == 0 else True


@given(policies(), SOURCES, SEEDS, KINDS)
def test_any_picture_stays_a_picture(policy, input_shape, seed, kind):
    views = apply(pictures(kind, input_shape), sampled(policy, input_shape, seed))
    assert views.shape == (3, 3, policy.size, policy.size)
    assert views.isfinite().all()
    assert views.min() >= 0
    assert views.max() <= 1


@given(st.integers(1, 16), KINDS)
def test_the_identity_changes_not_a_bit(side, kind):
    images = pictures(kind, (side, side))
    expected = images / 255 if images.dtype == torch.uint8 else images
    assert torch.equal(apply(images, identity(3, (side, side), side)), expected)


@given(policies(), SOURCES, SEEDS, KINDS)
def test_a_vector_brings_back_the_augmentation(policy, input_shape, seed, kind):
    p = sampled(policy, input_shape, seed)
    again = p.with_vector(p.to_vector())
    images = pictures(kind, input_shape)
    assert torch.equal(apply(images, again), apply(images, p))
    for field in dataclasses.fields(p):
        mine, theirs = getattr(p, field.name), getattr(again, field.name)
        assert torch.equal(mine, theirs) if isinstance(mine, torch.Tensor) else mine == theirs


@given(policies(), SOURCES, SEEDS, KINDS)
def test_compositions_are_applied_one_after_the_other(policy, input_shape, seed, kind):
    size = (policy.size, policy.size)
    a, b, c = (sampled(policy, here, seed + i) for i, here in enumerate((input_shape, size, size)))
    images = pictures(kind, input_shape)
    step_by_step = apply(apply(apply(images, a), b), c)
    assert torch.equal(apply(images, compose(c, b, a)), step_by_step)
    assert torch.equal(apply(images, compose(c, compose(b, a))), step_by_step)


@given(policies(), SOURCES, SEEDS, st.integers(1, 3))
def test_parts_and_repetitions_put_together_are_the_whole(policy, input_shape, seed, times):
    p = sampled(policy, input_shape, seed, n=4)
    vector = p.to_vector()
    whole = Parameters.concatenate([p[:1], p[1:]])
    assert torch.equal(whole.to_vector(), vector)
    assert torch.equal(p.repeat(times).to_vector(), vector.repeat_interleave(times, dim=0))
