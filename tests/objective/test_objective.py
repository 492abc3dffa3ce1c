"""What an objective hands to whom, and which combinations make no sense."""

import copy

import pytest
import torch
from torch import nn

from care.losses import equivariance, info_nce
from care.objective import Term, total
from objective.small import BATCH, REGISTERED_ONCE, build, drawn, noise, small


def test_the_total_is_the_weighted_sum():
    a, b = torch.tensor(2.0, requires_grad=True), torch.tensor(5.0)
    terms = {"a": Term(a, 3.0), "b": Term(b)}
    loss = total(terms)
    loss.backward()
    assert (loss.item(), a.grad.item()) == (11.0, 3.0)
    assert sum(terms.values()).item() == (terms["a"] + terms["b"]).item() == 11.0
    assert (terms["b"] + a).item() == (a + terms["b"]).item() == 7.0


def test_care_on_simclr_is_algorithm_1_with_four_separate_passes():
    objective = build(equivariance="care", care_weight=2.0, chunks=2)
    views = drawn(objective, noise())
    z = [copy.deepcopy(objective.encoder)(view.inputs) for view in views]
    terms = objective(views)
    torch.testing.assert_close(terms["info_nce"].value, info_nce(z[0], z[1], temperature=0.5))
    torch.testing.assert_close(terms["equivariance"].value, equivariance(z[2], z[3], 2))
    torch.testing.assert_close(total(terms), info_nce(z[0], z[1], temperature=0.5) + 2 * equivariance(z[2], z[3], 2))


def test_shared_views_go_through_the_encoder_once():
    objective = build(equivariance="care", equivariance_views="shared", chunks=2)
    views = drawn(objective, noise())
    z = [copy.deepcopy(objective.encoder)(view.inputs) for view in views]
    assert len(views) == len(objective.seen) == 2
    terms = objective(views)
    torch.testing.assert_close(terms["info_nce"].value, info_nce(*z, temperature=0.5))
    torch.testing.assert_close(terms["equivariance"].value, equivariance(*z, 2))


@pytest.mark.parametrize("dim", [0, 3])
def test_who_receives_which_coordinates(dim, monkeypatch):
    """Of a split embedding each its part, of one that is not split all of it: not all of it for a part of 0."""
    objective = build(equivariance="split", equivariant_dim=3) if dim else build(equivariance="care")
    seen = {}
    for part in (objective.method, objective.equivariance):
        monkeypatch.setattr(part, "terms", lambda *views, part=part: seen.setdefault(part, [v.z for v in views]) and {})
    views = drawn(objective, noise())
    whole = [z for _, z in copy.deepcopy(objective.encoder).encode_views([view.inputs for view in views])]
    objective(views)
    for z, c in zip(whole[:2], seen[objective.method], strict=True):
        torch.testing.assert_close(c, z[:, : 8 - dim])
    for z, r in zip(whole[2:], seen[objective.equivariance], strict=True):
        torch.testing.assert_close(r, z[:, 8 - dim :] if dim else z)


def test_gathering_reaches_methods_that_compare_images_only():
    """Two processes with the same rows, simulated: InfoNCE sees both copies, the chunks stay as they are."""
    objective = build(equivariance="care")
    views = drawn(objective, noise())
    alone = copy.deepcopy(objective)(views)
    objective.gather_by(lambda z: torch.cat([z, z.detach()]))
    together = objective(views)
    assert together["info_nce"].value > alone["info_nce"].value
    torch.testing.assert_close(together["equivariance"].value, alone["equivariance"].value)


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"equivariance": "care", "chunks": 3}, "chunks must divide a batch of 8 .*: 3 does not; these do: 1, 2, 4"),
        ({"equivariance": "care", "chunks": 8}, "at least 2 images each"),
        ({"equivariance": "care", "care_weight": -1.0}, "care_weight must be greater than 0, got -1"),
        ({"method": "simclear"}, "method must be one of simclr, mocov2"),
        ({"equivariance": "turned"}, "equivariance must be one of care, split, steering, .*none, got turned"),
        ({"method": "none"}, "nothing to train: both method and equivariance are none"),
        ({"temperature": 0.0}, "temperature must be greater than 0"),
        ({"form": "minkowski"}, "form is a setting of equivariance care .*, not of simclr with none"),
        ({"equivariance": "care", "form": "symplectic", "embedding_dim": 7}, "symplectic form needs an even"),
        ({"method": "mocov2", "queue": 4}, "queue of 4 is smaller than the 8 keys of a step: .* at least 8"),
        ({"policy": "cifar"}, "unknown policy 'cifar'"),
        ({"method": "byol", "teacher_momentum": 1.0}, "teacher_momentum must be at least 0 and less than 1, got 1"),
        ({"teacher_momentum": 0.9}, "is a setting of method mocov2 or method mocov3 or method byol, not of simclr"),
        ({"identity_probability": 0.5}, "identity_probability is a setting of equivariance care"),
        (
            {"equivariance": "care", "equivariance_views": "shared", "augmentation_per": "batch"},
            "augmentation_per needs views drawn for the equivariance",
        ),
        (
            {"equivariance": "care", "equivariance_views": "mixed", "equivariance_policy": "color_kept"},
            "equivariance_policy needs views drawn for the equivariance",
        ),
        (
            {"equivariance": "care", "chunks": 2, "equivariance_fraction": 0.25},
            "equivariance_fraction 0.25 is 1 of the 4 images of a chunk: .* at least 2, as with 1.0, 0.5$",
        ),
        (
            {"equivariance": "care", "chunks": 2, "equivariance_fraction": 0.6},
            "equivariance_fraction 0.6 is 2.4 of the 4 images",
        ),
        (
            {"equivariance": "care", "chunks": 2, "equivariance_fraction": 0.5, "equivariance_views": "shared"},
            "equivariance_fraction needs views drawn for the equivariance",
        ),
        (
            {"method": "none", "equivariance": "care", "equivariance_views": "shared"},
            "equivariance_views shared needs a method to share views with",
        ),
        ({"equivariance": "split", "equivariant_weight": 0.0}, "equivariant_weight must be greater than 0, got 0"),
        ({"equivariance": "split", "orbit_weight": -1.0}, "orbit_weight must be at least 0, got -1"),
        ({"equivariance": "split", "equivariant_dim": 1}, "equivariant_dim must be at least 2, got 1"),
        ({"equivariance": "split", "equivariant_dim": 7}, "at most 6 for an embedding_dim of 8, got 7"),
        ({"equivariance": "split", "form": "symplectic"}, "form must be one of euclidean"),
        ({"method": "none", "equivariance": "split"}, "a split embedding needs a method"),
        ({"equivariance": "steering", "steering_weight": 0.0}, "steering_weight must be greater than 0"),
        ({"equivariance": "steering", "steering_rank": 1}, "steering_rank must be at least 2 and at most 512, got 1"),
        ({"equivariance": "steering", "form": "minkowski"}, "form must be one of euclidean"),
        ({"equivariance": "care", "steering_rank": 4}, "steering_rank is a setting of equivariance steering, not of"),
        ({"epoch": 3}, "there is no setting 'epoch'; did you mean 'epochs'"),
    ],
    ids=str,
)
@pytest.mark.usefixtures("unchecked")
def test_what_makes_no_sense_is_refused_in_a_sentence(chosen, message):
    with pytest.raises(ValueError, match=message) as error:
        small(**chosen)
    assert "\n" not in str(error.value)


def test_batches_and_chunks_are_shared_out_over_processes():
    small(equivariance="care", chunks=2).check(BATCH, processes=2)
    with pytest.raises(ValueError, match="multiple of 4 processes: 2 does not; these do: 4, 8"):
        small(equivariance="care", chunks=2).check(16, processes=4)
    with pytest.raises(ValueError, match="4 processes cannot share a batch of 250 evenly"):
        small().check(250, processes=4)


def test_the_networks_that_are_compiled_are_the_encoder_and_its_teacher():
    alone, taught = build(), build(method="byol", equivariance="care")
    assert alone.encoders == [alone.encoder]
    assert taught.encoders == [taught.encoder, taught.method.teacher]


@pytest.mark.parametrize("chosen", REGISTERED_ONCE.values(), ids=REGISTERED_ONCE)
def test_every_linear_layer_between_norms_is_compiled_once(chosen):
    """Whoever has it: encoders, teachers, and what methods and equivariances have of their own."""
    objective = build(**chosen)
    objective.compile_networks()
    compiled = {name for name, module in objective.named_modules() if module._compiled_call_impl is not None}
    for name, module in objective.named_modules():
        if isinstance(module, nn.BatchNorm1d):
            parents = name.split(".")
            above = {".".join(parents[:i]) for i in range(1, len(parents) + 1)}
            assert len(above & compiled) == 1, name
