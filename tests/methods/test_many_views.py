"""More than two views of a sample: those that SimCLR asks for, and those of CARE in the method's loss."""

import copy
from functools import partial
from itertools import combinations, permutations

import pytest
import torch

from care.losses import barlow_twins, byol, equivariance, info_nce, mocov3, queue_info_nce, simsiam, vicreg
from care.models import forward_views
from care.objective import Method, teacher_views_count, total
from care.objective.registry import REGISTERED, find
from objective.small import SMALLER, drawn, noise, small
from objective.small import build as build_any

build = partial(build_any, **SMALLER)


def encoded(objective, views):
    """Every view by itself."""
    encoder = copy.deepcopy(objective.encoder)
    return [encoder(view.inputs) for view in views]


def mean(values):
    return torch.stack(list(values)).mean()


def test_simclr_with_four_views_is_the_mean_over_their_pairs():
    objective = build(views=4, temperature=0.3)
    views = drawn(objective, noise())
    assert len(views) == 4
    assert not any(torch.equal(a.inputs, b.inputs) for a, b in combinations(views, 2))
    pairs = combinations(encoded(objective, views), 2)
    expected = mean(info_nce(a, b, temperature=0.3) for a, b in pairs)
    torch.testing.assert_close(objective(views)["info_nce"].value, expected)


def test_care_hands_its_views_to_the_methods_loss():
    """The views, and CARE's loss of them, are those of the paper."""
    own, objective = (build(equivariance="care", care_weight=2.0, contrast=which) for which in ("own", "all"))
    views = drawn(objective, noise())
    assert all(torch.equal(a.inputs, b.inputs) for a, b in zip(views, drawn(own, noise()), strict=True))
    z = encoded(objective, views)
    contrast = mean(info_nce(a, b) for a, b in combinations(z, 2))
    torch.testing.assert_close(total(objective(views)), contrast + 2 * equivariance(z[2], z[3], 4))
    assert objective(views).keys() == own(views).keys()


PAIRS = {"barlow_twins": barlow_twins, "vicreg": vicreg}
PREDICTED = {"byol": byol, "simsiam": simsiam, "mocov3": mocov3}


@pytest.mark.parametrize("name", PAIRS)
def test_a_loss_of_two_views_is_averaged_over_pairs(name):
    objective = build(method=name, equivariance="care", contrast="all")
    views = drawn(objective, noise())
    expected = mean(PAIRS[name](a, b) for a, b in combinations(encoded(objective, views), 2))
    torch.testing.assert_close(objective(views)[name].value, expected)


@pytest.mark.parametrize("name", PREDICTED)
def test_predictions_are_compared_with_all_other_views(name):
    objective = build(method=name, equivariance="care", contrast="all")
    views, frozen = drawn(objective, noise()), copy.deepcopy(objective)
    inputs = [view.inputs for view in views]
    z = forward_views(frozen.encoder, inputs)
    p = forward_views(frozen.method.predictor, z)
    targets = z if name == "simsiam" else forward_views(frozen.method.teacher, inputs)
    loss = PREDICTED[name]
    expected = mean(loss(p[a], p[b], targets[a], targets[b]) for a, b in combinations(range(4), 2))
    torch.testing.assert_close(objective(views)[name].value, expected)


@pytest.mark.parametrize("symmetric", [False, True])
def test_mocos_queries_are_compared_with_the_keys_of_other_views(symmetric):
    """One-sided, the second view alone is a key; what CARE's views add are queries, which the encoder has seen."""
    objective = build(method="mocov2", equivariance="care", contrast="all", symmetric=symmetric, queue=32)
    views, moco = drawn(objective, noise()), objective.method
    z, keys = encoded(objective, views), {}
    for b in range(4) if symmetric else [1]:
        keys[b] = torch.empty_like(z[b])
        for part in (slice(0, None, 2), slice(1, None, 2)):  # 8 keys are two BatchNorm groups
            keys[b][part] = copy.deepcopy(moco.teacher)(views[b].inputs[part])
    pairs = permutations(range(4), 2) if symmetric else [(0, 1), (2, 1), (3, 1)]
    expected = mean(queue_info_nce(z[a], keys[b], moco.queue, 0.1) for a, b in pairs)
    torch.testing.assert_close(objective(views)["info_nce"].value, expected)
    assert objective.seen == ([0, 1, 2, 3] if symmetric else [0, 2, 3])
    assert objective.teacher_views_count == teacher_views_count(objective.plan, type(moco), moco.settings) == len(keys)
    before = moco.queue.clone()
    objective.after_step(torch.tensor(0.5, dtype=torch.float64))
    new = torch.nn.functional.normalize(torch.cat(list(keys.values())), dim=1)
    torch.testing.assert_close(moco.queue, torch.cat([new, before])[:32])


def test_the_symmetric_loss_of_two_views_is_the_mean_of_both_directions():
    objective = build(method="mocov2", symmetric=True)
    one, other = copy.deepcopy(objective), copy.deepcopy(objective)
    for each in (one, other):
        object.__setattr__(each.method.settings, "symmetric", False)
    views = drawn(objective, noise())
    directions = [each(order)["info_nce"].value for each, order in ((one, views), (other, views[::-1]))]
    torch.testing.assert_close(objective(views)["info_nce"].value, mean(directions))


def test_every_registered_method_takes_the_views_of_care():
    assert all(find("method", name).any_views for name in REGISTERED["method"])


@pytest.mark.parametrize("equivariance", ["care", "split", "steering"])
def test_all_that_is_made_from_care_can_hand_them_over(equivariance):
    objective = build(equivariance=equivariance, contrast="all")
    assert objective.plan.method == (0, 1, 2, 3)
    assert objective.plan.equivariance == (2, 3)


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"method": "none"}, "any number of views, as SimCLR does: no method is chosen$"),
        ({"equivariance_views": "shared"}, "contrast needs views drawn for the equivariance"),
    ],
)
def test_where_it_cannot_be_is_a_sentence(chosen, message):
    with pytest.raises(ValueError, match=message):
        small(equivariance="care", contrast="all", **chosen)


def test_a_method_of_two_views_says_so(monkeypatch):
    class Mine(Method):
        """Says nothing about the number of its views."""

    monkeypatch.setitem(REGISTERED["method"], "mine", f"{__name__}:Mine")
    monkeypatch.setattr("care.objective.registry._loaded", {("method", "mine"): Mine})
    with pytest.raises(ValueError, match="Mine takes a fixed number"):
        small(method="mine", equivariance="care", contrast="all")
