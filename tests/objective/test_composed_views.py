"""Views of the method's first view: a(t x) and a'(t x) beside t x."""

import copy

import pytest
import torch

from care.augment import apply, hue_only, policy_named
from care.losses import equivariance, info_nce
from care.objective import total, view_plan
from objective.small import build, noise, small

BATCH, CHUNKS = 16, 2
COMPOSED = {
    "equivariance": "care", "equivariance_views": "composed", "equivariance_policy": "hue_only", "batch_size": BATCH,
    "chunks": CHUNKS,
}  # fmt: skip


def draw(plan, images, rows=slice(None)):
    return plan.draw(images, BATCH, rows, torch.Generator().manual_seed(3))


def test_the_last_views_are_the_first_one_augmented_once_more_per_chunk():
    images = noise(BATCH)
    plan = view_plan(small(**COMPOSED), BATCH)
    generator = torch.Generator().manual_seed(3)
    t = [policy_named("cifar10").sample(BATCH, (32, 32), generator) for _ in range(2)]
    a, b = (hue_only(32).sample(CHUNKS, (32, 32), generator).repeat(BATCH // CHUNKS) for _ in range(2))
    v1, v2, w1, w2 = (view.inputs for view in draw(plan, images))
    assert (plan.method, plan.equivariance) == ((0, 1), (2, 3))
    torch.testing.assert_close(v1, apply(images, t[0]))
    torch.testing.assert_close(v2, apply(images, t[1]))
    torch.testing.assert_close(w1, apply(apply(images, t[0]), a))
    torch.testing.assert_close(w2, apply(apply(images, t[0]), b))
    assert not torch.allclose(w1, w2, atol=1e-2)


def test_the_losses_are_of_these_views():
    objective = build(**COMPOSED, equivariance_fraction=0.5, care_weight=2.0)
    views = draw(objective.plan, noise(BATCH))
    assert [len(view.inputs) for view in views] == [BATCH, BATCH, BATCH // 2, BATCH // 2]
    encoder = copy.deepcopy(objective.encoder)
    z1, z2, w1, w2 = (encoder(view.inputs) for view in views)
    torch.testing.assert_close(total(objective(views)), info_nce(z1, z2) + 2 * equivariance(w1, w2, CHUNKS))


def test_views_of_some_samples_share_joint_statistics_with_the_others():
    objective = build(**COMPOSED, equivariance_fraction=0.5, care_weight=2.0, batchnorm="joint")
    views = draw(objective.plan, noise(BATCH))
    z = copy.deepcopy(objective.encoder)(torch.cat([view.inputs for view in views]))
    z1, z2, w1, w2 = z.split([len(view.inputs) for view in views])
    torch.testing.assert_close(total(objective(views)), info_nce(z1, z2) + 2 * equivariance(w1, w2, CHUNKS))


@pytest.mark.parametrize("fraction", [1.0, 0.5])
def test_the_rows_of_a_process_do_not_depend_on_the_number_of_processes(fraction):
    images = noise(BATCH)
    plan = view_plan(small(**COMPOSED, equivariance_fraction=fraction), BATCH)
    halves = [draw(plan, images[rows], rows) for rows in (slice(0, 8), slice(8, 16))]
    for view, *parts in zip(draw(plan, images), *halves, strict=True):
        assert torch.equal(view.inputs, torch.cat([part.inputs for part in parts]))


def test_what_it_costs():
    """Two views of a quarter of the samples are half a view."""
    config = small(**COMPOSED, equivariance_fraction=0.25)
    assert config.views_a_step == 2.5


def test_the_method_can_compare_them_too():
    assert view_plan(small(**COMPOSED, contrast="all"), BATCH).method == (0, 1, 2, 3)


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"method": "none"}, "composed needs a method"),
        ({"equivariance": "steering"}, "composed: steering"),
        ({"contrast": "all", "equivariance_fraction": 0.5}, "leave out equivariance_fraction"),
    ],
    ids=str,
)
def test_what_does_not_go_together(chosen, message):
    with pytest.raises(ValueError, match=message):
        small(**{**COMPOSED, **chosen}).check(BATCH)
