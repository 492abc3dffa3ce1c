"""What is particular to each method, against its formula."""

import copy
import math
from functools import partial

import pytest
import torch

from care.geometry import Minkowski
from care.losses import (
    barlow_twins,
    byol,
    dcl,
    equivariance,
    hard_negatives,
    info_nce,
    invariance,
    mocov3,
    orbit_uniformity,
    queue_info_nce,
    simsiam,
    slice_uniformity,
    uniformity,
    vicreg,
)
from care.methods.mocov2 import key_groups
from care.models import forward_views
from care.objective import Context, total
from objective.small import BATCH, SMALLER, drawn, noise, small
from objective.small import build as build_any

build = partial(build_any, **SMALLER)
PROGRESS = torch.tensor(0.5, dtype=torch.float64)


@pytest.mark.parametrize(
    ("method", "chosen", "literal"),
    [
        ("simclr", {"temperature": 0.3}, lambda z1, z2: info_nce(z1, z2, temperature=0.3)),
        ("simclr", {"tile": 3}, lambda z1, z2: info_nce(z1, z2, temperature=0.5)),
        ("dcl", {"temperature": 0.3}, lambda z1, z2: dcl(z1, z2, temperature=0.3)),
        (
            "hard_negatives",
            {"class_prior": 0.3, "concentration": 2.0},
            lambda z1, z2: hard_negatives(z1, z2, temperature=0.5, class_prior=0.3, concentration=2.0),
        ),
        ("barlow_twins", {"redundancy": 0.1}, lambda z1, z2: barlow_twins(z1, z2, 0.1)),
        ("vicreg", {"variance_weight": 3.0}, lambda z1, z2: vicreg(z1, z2, 25.0, 3.0, 1.0)),
        ("invariance", {}, invariance),
        ("uniformity", {}, uniformity),
    ],
)
def test_losses_of_two_views(method, chosen, literal):
    objective = build(method=method, **chosen)
    views = drawn(objective, noise())
    z = [copy.deepcopy(objective.encoder)(view.inputs) for view in views]
    (term,) = objective(views).values()
    torch.testing.assert_close(term.value, literal(*z))
    assert term.weight == 1


def test_moco_takes_negatives_from_the_queue_and_enqueues_afterwards():
    objective = build(method="mocov2", equivariance="care", temperature=0.1)
    views, moco = drawn(objective, noise()), objective.method
    before = moco.queue.clone()
    query = copy.deepcopy(objective.encoder)(views[0].inputs)
    key = torch.empty_like(query)
    for part in (slice(0, None, 2), slice(1, None, 2)):  # 8 keys are two BatchNorm groups
        key[part] = copy.deepcopy(moco.teacher)(views[1].inputs[part])
    terms = objective(views)
    torch.testing.assert_close(terms["info_nce"].value, queue_info_nce(query, key, before, 0.1))
    assert objective.seen == [0, 2, 3]
    assert torch.equal(moco.queue, before)
    objective.after_step(PROGRESS)
    torch.testing.assert_close(moco.queue[:BATCH], torch.nn.functional.normalize(key, dim=1))
    torch.testing.assert_close(moco.queue[BATCH:], before[: 16 - BATCH])
    assert {"method.queue", "method.teacher.head.0.weight"} <= set(objective.state_dict())


@pytest.mark.parametrize(("name", "momentum"), [("mocov2", 0.9), ("byol", 0.95), ("mocov3", 0.95)])
def test_the_teacher_follows(name, momentum):
    """BYOL's and MoCo-v3's by 1 − (1 − m) (cos(π · progress) + 1)/2, half of the way through training."""
    objective = build(method=name, teacher_momentum=0.9)
    teacher = objective.method.teacher
    with torch.no_grad():
        for p in objective.encoder.parameters():
            p.add_(1.0)
    old = [p.clone() for p in teacher.parameters()]
    objective(drawn(objective, noise()))
    objective.after_step(PROGRESS)
    for p, before, student in zip(teacher.parameters(), old, objective.encoder.parameters(), strict=True):
        torch.testing.assert_close(p, momentum * before + (1 - momentum) * student)
        assert not p.requires_grad


def test_byols_teacher_stops_at_the_end():
    objective = build(method="byol", teacher_momentum=0.5)
    with torch.no_grad():
        for p in objective.encoder.parameters():
            p.add_(1.0)
    before = [p.clone() for p in objective.method.teacher.parameters()]
    objective.after_step(torch.tensor(1.0, dtype=torch.float64))
    assert all(torch.allclose(a, b) for a, b in zip(before, objective.method.teacher.parameters(), strict=True))


@pytest.mark.parametrize(("name", "loss"), [("byol", byol), ("simsiam", simsiam), ("mocov3", mocov3)])
def test_byol_and_mocov3_predict_their_teacher_and_simsiam_itself(name, loss):
    objective = build(method=name)
    views, frozen = drawn(objective, noise()), copy.deepcopy(objective)
    inputs = [view.inputs for view in views]
    z = forward_views(frozen.encoder, inputs)
    p = forward_views(frozen.method.predictor, z)
    targets = z if name == "simsiam" else forward_views(frozen.method.teacher, inputs)
    torch.testing.assert_close(objective(views)[name].value, loss(*p, *targets))


@pytest.mark.parametrize("name", ["simclr", "mocov2", "mocov3", "byol", "simsiam", "vicreg"])
def test_the_equivariant_part_takes_no_part_in_the_methods_loss(name):
    """The last 3 of 8 coordinates: not in the loss, the queue or predictions, however large they are."""
    objective = build(method=name, equivariance="split", equivariant_dim=3)
    louder = copy.deepcopy(objective)
    for encoder in (louder.encoder, getattr(louder.method, "teacher", None)):
        if encoder is not None:
            with torch.no_grad():
                encoder.head[-1].weight[5:] *= 10
    views = drawn(objective, noise())
    terms, loud = objective(views), louder(views)
    (own,) = set(terms) - {"equivariance", "slice", "orbit"}
    torch.testing.assert_close(terms[own].value, loud[own].value)
    if name == "mocov2":
        for one in (objective, louder):
            one.after_step(PROGRESS)
        torch.testing.assert_close(objective.method.queue, louder.method.queue)
        assert objective.method.queue.shape == (16, 5)
        torch.testing.assert_close(objective.method.queue.norm(dim=1), torch.ones(16, dtype=torch.float64))


def test_a_split_embedding_is_its_formula():
    """L_method(c) + κ (L_slice(r) + ω L_orbit(r) + λ L_equi(r))."""
    chosen = {"care_weight": 3.0, "equivariant_weight": 0.2, "orbit_weight": 0.7, "chunks": 2}
    objective = build(equivariance="split", **chosen)
    views = drawn(objective, noise())
    z = [copy.deepcopy(objective.encoder)(view.inputs) for view in views]
    r1, r2 = z[2][:, 5:], z[3][:, 5:]
    expected = slice_uniformity(r1, r2, 2) + 0.7 * orbit_uniformity(r1, r2, 2) + 3.0 * equivariance(r1, r2, 2)
    torch.testing.assert_close(total(objective(views)), info_nce(z[0][:, :5], z[1][:, :5]) + 0.2 * expected)
    assert set(build(equivariance="split", orbit_weight=0.0)(views)) == {"info_nce", "equivariance", "slice"}


def test_the_six_ablations_of_the_paper():
    literal = {"none": lambda *_: 0.0, "simclr": info_nce, "invariance": invariance, "uniformity": uniformity}
    for method, loss in literal.items():
        for weight in (0.0, 2.0):
            if method == "none" and not weight:
                continue
            care = {"equivariance": "care", "care_weight": weight} if weight else {}
            objective = build(method=method, **care)
            views = drawn(objective, noise())
            z = [copy.deepcopy(objective.encoder)(view.inputs) for view in views]
            expected = loss(*z[:2]) + (weight * equivariance(*z[-2:], 4) if weight else 0.0)
            torch.testing.assert_close(total(objective(views)), torch.as_tensor(expected))


def test_another_form():
    objective = build(equivariance="care", form="minkowski", chunks=2)
    views = drawn(objective, noise())
    z = [copy.deepcopy(objective.encoder)(view.inputs) for view in views]
    expected = equivariance(z[2], z[3], 2, Minkowski())
    torch.testing.assert_close(objective(views)["equivariance"].value, expected)


@pytest.mark.parametrize(
    ("batch", "processes", "groups"),
    [(256, 1, 8), (256, 8, 8), (512, 4, 16), (100, 1, 4), (250, 1, 10), (1000, 1, 25), (8, 1, 2), (254, 1, 2)],
)
def test_keys_of_moco_are_normalized_in_groups(batch, processes, groups):
    """As near to 32 as the batch allows, and never with all images of the batch."""
    assert key_groups(Context(batch, 8, processes=processes)) == groups
    divisors = [g for g in range(2, batch // 2 + 1) if (batch // processes) % g == 0]
    assert all(abs(math.log(batch / groups / 32)) <= abs(math.log(batch / g / 32)) for g in divisors)


def test_keys_that_cannot_be_parted_are_refused():
    with pytest.raises(ValueError, match="a batch of 127 cannot be split"):
        small(method="mocov2", batch_size=127, queue=128)


def test_a_fraction_of_each_chunk_is_what_the_equivariance_loss_is_of():
    """Each view goes through the network for itself, whatever its size; the method's loss is what it was."""
    half, whole = (build(equivariance="care", chunks=2, equivariance_fraction=f) for f in (0.5, 1.0))
    views = drawn(half, noise())
    assert [len(view.inputs) for view in views] == [BATCH, BATCH, BATCH // 2, BATCH // 2]
    apart = copy.deepcopy(half.encoder)
    z = [apart(view.inputs) for view in views]
    found = half(views)
    torch.testing.assert_close(found["equivariance"].value, equivariance(z[2], z[3], 2))
    torch.testing.assert_close(found["info_nce"].value, whole(drawn(whole, noise()))["info_nce"].value)
    torch.testing.assert_close(half.encoder.state_dict(), apart.state_dict())
