import copy
import math

import pytest
import torch

from care.geometry import Minkowski
from care.losses import CARE, byol, equivariance, info_nce, queue_info_nce, simsiam
from care.methods import Method, MethodSettings, build_encoder, build_method
from care.methods.build import view_plan
from care.models import forward_views

BATCH = 8
METHODS = ["simclr", "mocov2", "barlow_twins", "vicreg", "byol", "simsiam", "invariance", "uniformity", "equivariance"]


def build(**settings):
    torch.manual_seed(0)
    chosen = MethodSettings(model="test_resnet", embedding=8, head_width=16, chunks=2, queue=16, **settings)
    return build_method(chosen, build_encoder(chosen, (32, 32)).double(), BATCH).double()


@pytest.fixture
def images(generator):
    return list(torch.rand(4, BATCH, 3, 32, 32, generator=generator, dtype=torch.float64))


def views_of(method, images):
    return images[: len(method.plan.views)]


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("weight", [0.0, 2.0])
def test_every_method_trains_with_and_without_care(name, weight, images):
    if name == "equivariance" and weight == 0:
        pytest.skip("there would be nothing to train")
    method = build(method=name, equivariance=weight)
    terms = method(*views_of(method, images))
    assert set(terms) == {*([] if name == "equivariance" else ["siamese"]), *(["equivariance"] if weight else [])}
    method.loss.total(terms).backward()
    assert all(torch.isfinite(p.grad).all() for p in method.encoder.parameters())
    assert any(p.grad.abs().max() > 0 for p in method.encoder.parameters())
    method.after_step(0.9)


def test_care_on_simclr_is_algorithm_1_with_four_separate_passes(images):
    method = build(equivariance=3.0)
    z = [copy.deepcopy(method.encoder)(view) for view in images]
    terms = method(*images)
    torch.testing.assert_close(terms["siamese"], info_nce(z[0], z[1], 0.5))
    torch.testing.assert_close(terms["equivariance"], equivariance(z[2], z[3], 2))


def test_two_views_at_the_cost_of_simclr(images):
    method = build(equivariance=3.0, views=2)
    assert len(method.plan.views) == 2
    z = [copy.deepcopy(method.encoder)(view) for view in images[:2]]
    terms = method(*images[:2])
    torch.testing.assert_close(terms["siamese"], info_nce(*z, 0.5))
    torch.testing.assert_close(terms["equivariance"], equivariance(*z, 2))


def test_moco_takes_negatives_from_the_queue_and_enqueues_afterwards(images):
    method = build(method="mocov2", equivariance=1.0, temperature=0.1)
    before = method.queue.clone()
    query = copy.deepcopy(method.encoder)(images[0])
    key = torch.empty_like(query)
    for part in (slice(0, None, 2), slice(1, None, 2)):  # 8 keys are two BatchNorm groups
        key[part] = copy.deepcopy(method.momentum_encoder)(images[1][part])
    terms = method(*images)
    torch.testing.assert_close(terms["siamese"], queue_info_nce(query, key, before, 0.1))
    assert torch.equal(method.queue, before)
    method.after_step(0.99)
    torch.testing.assert_close(method.queue[:BATCH], torch.nn.functional.normalize(key, dim=1))
    torch.testing.assert_close(method.queue[BATCH:], before[: 16 - BATCH])
    assert {"queue", "momentum_encoder.head.0.weight"} <= set(method.state_dict())


@pytest.mark.parametrize("name", ["mocov2", "byol"])
def test_the_momentum_encoder_follows(name, images):
    method = build(method=name)
    with torch.no_grad():
        for p in method.encoder.parameters():
            p.add_(1.0)
    old = [p.clone() for p in method.momentum_encoder.parameters()]
    method(*images[:2])
    method.after_step(0.9)
    for p, before, online in zip(method.momentum_encoder.parameters(), old, method.encoder.parameters(), strict=True):
        torch.testing.assert_close(p, 0.9 * before + 0.1 * online)
        assert not p.requires_grad


def test_byol_predicts_the_momentum_encoder_and_simsiam_itself(images):
    for name, function in (("byol", byol), ("simsiam", simsiam)):
        method = build(method=name)
        frozen = copy.deepcopy(method)
        z = forward_views(frozen.encoder, images[:2])
        p = forward_views(frozen.predictor, z)
        targets = forward_views(frozen.momentum_encoder, images[:2]) if name == "byol" else z
        torch.testing.assert_close(method(*images[:2])["siamese"], function(*p, *targets))


def test_what_is_turned_is_not_compared_by_a_queue_or_a_predictor(images):
    """The last 3 of 8 coordinates take no part in the loss, in the queue or in predictions, however large they are."""
    for name in ("mocov2", "byol", "simsiam"):
        method = build(method=name, equivariance=1.0, turned=3)
        louder = copy.deepcopy(method)
        for encoder in {louder.encoder, getattr(louder, "momentum_encoder", None)} - {None}:
            with torch.no_grad():
                encoder.head[-1].weight[5:] *= 10
        terms, loud = method(*images), louder(*images)
        assert set(terms) == {"siamese", "equivariance", "slice", "orbit"}
        torch.testing.assert_close(terms["siamese"], loud["siamese"])
        if name == "mocov2":
            for one in (method, louder):
                one.after_step(0.5)
            torch.testing.assert_close(method.queue, louder.queue)
            torch.testing.assert_close(method.queue.norm(dim=1), torch.ones(16, dtype=torch.float64))


def test_gathering_reaches_the_siamese_loss_only(images):
    """Two processes with the same rows, simulated: InfoNCE sees both copies, the chunks stay as they are."""
    method = build(equivariance=1.0)
    alone = copy.deepcopy(method)(*images)
    method.gather = lambda z: torch.cat([z, z.detach()])
    together = method(*images)
    assert together["siamese"] > alone["siamese"]
    torch.testing.assert_close(together["equivariance"], alone["equivariance"])


def test_the_head_can_do_without_batchnorm():
    assert [len(build(head_batchnorm=on).encoder.head) for on in (True, False)] == [4, 3]


def test_another_form():
    method = build(equivariance=1.0, form="minkowski")
    assert method.loss.equivariance.form == Minkowski()
    assert isinstance(method, Method)
    assert isinstance(method.loss, CARE)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"equivariance": 1.0, "chunks": 3}, "chunks must divide a batch of 8 .*: 3 does not; these do: 1, 2, 4"),
        ({"equivariance": 1.0, "chunks": 8}, "at least 2 images each"),
        ({"equivariance": -1.0}, "must not be negative"),
        ({"method": "simclear"}, "method must be one of simclr, mocov2"),
        ({"method": "equivariance"}, "needs equivariance > 0"),
        ({"temperature": 0.0}, "greater than 0"),
        ({"form": "minkowski"}, "needs equivariance > 0"),
        ({"equivariance": 1.0, "form": "symplectic", "embedding": 7}, "even embedding"),
        ({"method": "mocov2", "queue": 4}, "queue of 4 is smaller than a batch of 8"),
        ({"policy": "cifar"}, "policy must be one of simclr"),
        ({"momentum": 1.0}, "momentum must be in"),
        ({"identity": 0.5}, "identity is of use to equivariance or steering only: leave it at 0"),
        ({"shared_by": "batch"}, "shared_by is of use to four views"),
        ({"equivariance": 1.0, "views": 2, "shared_by": "batch"}, "shared_by is of use to four views"),
        ({"equivariance": 1.0, "chunked_views": 1}, "chunked_views is of use to two views"),
        ({"equivariance": 1.0, "views": 2, "policy": "color_kept"}, "policy and chunk_policy must be the same"),
        ({"orbit": 0.5}, "orbit is of use to turned coordinates only"),
        ({"turning": 0.5}, "turning is of use to turned coordinates only"),
        ({"equivariance": 1.0, "turned": 4, "turning": 0.0}, "turning .* must be greater than 0, got 0"),
        ({"equivariance": 1.0, "turned": 4, "orbit": -1.0}, "orbit .* must not be negative, got -1"),
        ({"turned": 4}, "turned coordinates need equivariance > 0"),
        ({"equivariance": 1.0, "turned": 1}, r"turned must be 0, or in \[2, 126\] for an embedding of 128"),
        ({"equivariance": 1.0, "turned": 127}, r"turned must be 0, or in \[2, 126\]"),
        (
            {"equivariance": 1.0, "turned": 4, "method": "uniformity"},
            "goes with simclr, mocov2, barlow_twins, vicreg, byol, simsiam, not with uniformity",
        ),
        ({"equivariance": 1.0, "turned": 4, "steering": 1.0}, "turned and steering do not go together"),
        ({"equivariance": 1.0, "turned": 4, "form": "symplectic"}, "on a sphere, not in the space of symplectic"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_settings_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        MethodSettings(**{"chunks": 2, "queue": 16, **settings}).check(BATCH)


def test_a_batch_that_processes_cannot_share_is_refused():
    MethodSettings().check(248, processes=4)
    with pytest.raises(ValueError, match="4 processes cannot share a batch of 250 evenly"):
        MethodSettings().check(250, processes=4)


@pytest.mark.parametrize(
    ("batch", "processes", "groups"),
    [(256, 1, 8), (256, 8, 8), (512, 4, 16), (100, 1, 4), (250, 1, 10), (1000, 1, 25), (8, 1, 2), (254, 1, 2)],
)
def test_keys_of_moco_are_normalized_in_groups(batch, processes, groups):
    """As near to 32 as the batch allows, and never with all images of the batch."""
    settings = MethodSettings(method="mocov2", model="test_resnet", embedding=8, head_width=16)
    assert build_method(settings, build_encoder(settings, (32, 32)), batch, processes).groups == groups
    divisors = [g for g in range(2, batch // 2 + 1) if (batch // processes) % g == 0]
    assert all(abs(math.log(batch / groups / 32)) <= abs(math.log(batch / g / 32)) for g in divisors)


def test_keys_that_cannot_be_parted_are_refused():
    with pytest.raises(ValueError, match="a batch of 127 cannot be parted"):
        MethodSettings(method="mocov2").check(127)


def test_identity_is_of_the_chunks_alone(generator):
    settings = MethodSettings(equivariance=1.0, chunks=4, identity=1.0)
    plan, images = view_plan(settings, 16), torch.randint(256, (16, 3, 32, 32), dtype=torch.uint8, generator=generator)
    *siamese, a, b = plan.draw(images, 16, slice(0, 16), generator)
    assert torch.equal(a, images / 255)
    assert torch.equal(b, images / 255)
    assert not any(torch.equal(view, images / 255) for view in siamese)


def test_chunks_must_be_shared_out_over_processes():
    settings = MethodSettings(equivariance=1.0, chunks=2)
    settings.check(8, processes=2)
    with pytest.raises(ValueError, match="multiple of 4 processes: 2 does not; these do: 4, 8"):
        settings.check(16, processes=4)
