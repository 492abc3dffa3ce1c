import dataclasses

import pytest
import torch

from care.augment import ImageParameters, ImagePolicy, Parameters, PointPolicy, identity, simclr


@pytest.fixture(params=["images", "points"])
def p(request, generator):
    if request.param == "images":
        return ImagePolicy(size=32, solarize=0.5).sample(10, (48, 64), generator)
    return PointPolicy(scale=(0.5, 2.0), jitter=0.1).sample(10, (7,), generator)


def same(p, q):
    return p._settings() == q._settings() and all(torch.equal(t, getattr(q, name)) for name, t in p._tensors())


def test_vector_and_back(p):
    vector = p.to_vector()
    assert vector.shape == (10, len(p.names()))
    assert same(p.with_vector(vector), p)
    assert same(p.with_vector(vector[:3]), p[:3])


def test_names_of_the_columns(generator):
    p = simclr().sample(2, (32, 32), generator)
    assert p.names()[:6] == ("top", "left", "height", "width", "flip", "order_0")
    hue = p.to_vector()[:, p.names().index("hue")]
    assert torch.equal(hue, p.hue)
    assert "rotation_2_1" in PointPolicy().sample(1, (3,), generator).names()


def test_a_vector_of_another_kind_is_refused(p):
    with pytest.raises(ValueError, match="columns"):
        p.with_vector(torch.zeros(2, 3))


def test_indexing(p):
    assert len(p) == 10
    assert same(p[3], p[3:4])
    assert same(p[-1], p[9:])
    assert same(p[torch.tensor([2, 7])], Parameters.concatenate([p[2], p[7]]))
    with pytest.raises(IndexError):
        p[10]


def test_repeat_keeps_neighbors_together(p):
    repeated = p.repeat(3)
    assert len(repeated) == 30
    for i in range(10):
        for k in range(3):
            assert same(repeated[3 * i + k], p[i])


def test_concatenating_different_settings_is_refused():
    with pytest.raises(ValueError, match=r"'size': 32.*'size': 24"):
        Parameters.concatenate([identity(1, (32, 32), 32), identity(1, (32, 32), 24)])


def test_nothing_changes_a_value(p):
    with pytest.raises(dataclasses.FrozenInstanceError):
        p.input_shape = (1, 1)


def test_prints_readably():
    one, no = torch.ones(1), torch.zeros(1, dtype=torch.bool)
    pixels = torch.tensor([3]), torch.tensor([5]), torch.tensor([12]), torch.tensor([18])
    p = ImageParameters(
        *pixels, flip=~no, order=torch.tensor([[2, 3, 0, 1]]),
        brightness=0.8 * one, contrast=one, saturation=1.25 * one,
        hue=-0.05 * one, gray=no, blur=~no, sigma=0.73 * one, solarize=~no, input_shape=(32, 32), size=32,
        kernel_size=3,
    )  # fmt: skip
    expected = "crop 12×18 at (3, 5), flip, saturation ×1.25, hue -0.050, brightness ×0.80, blur σ 0.73, solarize"
    assert p.describe(0) == expected
    assert f"0: {expected}" in repr(p)
    assert "… 12 more" in repr(p.repeat(20))
    assert identity(1, (32, 32), 32).describe(0) == "identity"
