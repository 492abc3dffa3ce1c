"""STL: its formula, its minimum, and pairs that share augmentations."""

import pytest
import torch
from torch import nn

from care.losses import mapped
from care.methods.stl import swap_pairs
from losses import literal
from methods.peers import features_of, passed, peer_of, planted
from objective.small import BATCH, build, drawn, noise, small


def test_it_is_its_formula():
    objective = build(equivariance="stl", stl_temperature=0.3, stl_weight=0.6, transformation_weight=0.2)
    views, peer = drawn(objective, noise()), objective.equivariance
    f = features_of(objective, views)
    y1, y2 = passed(peer.head, f)
    (t,) = passed(peer.transformation, [torch.cat(f, 1)])
    partner = torch.stack([t[i + 1 if i % 2 == 0 else i - 1] for i in range(BATCH)])
    terms = objective(views)
    expected = literal.info_nce(y2, literal.mapped(y1, partner, peer.maps), temperature=0.3)
    assert terms["stl"].value.item() == pytest.approx(expected, rel=1e-9)
    assert terms["transformation"].value.item() == pytest.approx(
        literal.info_nce(t[::2], t[1::2], temperature=0.3), rel=1e-9
    )
    assert (terms["stl"].weight, terms["transformation"].weight) == (0.6, 0.2)


def test_neighbors_share_both_augmentations():
    """Of two equal pictures that are neighbors, both views are equal, and of others they are not."""
    objective = build(equivariance="stl")
    pictures = noise(1).repeat(BATCH, 1, 1, 1)
    for view in drawn(objective, pictures):
        pairs = view.inputs.unflatten(0, (-1, 2))
        assert torch.equal(pairs[:, 0], pairs[:, 1])
        assert not torch.equal(pairs[0, 0], pairs[1, 0])


def test_features_that_a_transformation_of_the_pair_carries_along_have_no_loss(generator):
    """f(x2) = H(t) f(x1) with a t that both of a pair show, and each pair another."""
    peer = peer_of(equivariance="stl", stl_temperature=1e-3, transformation_dim=BATCH // 2, stl_dim=BATCH + 2)
    peer.maps.data = torch.randn(peer.maps.shape, generator=generator)
    t = torch.eye(BATCH // 2).repeat_interleave(2, 0)
    y1 = torch.cat([torch.eye(BATCH), torch.zeros(BATCH, 2)], 1)
    y2 = mapped(y1, t, peer.maps.data)

    class Shown(nn.Module):
        def forward(self, f):
            return t

    peer.head, peer.transformation = nn.Identity(), Shown()
    views = [planted(torch.zeros(BATCH, 1), y) for y in (y1, y2)]
    assert [term.value.item() for term in peer.terms(*views).values()] == pytest.approx([0, 0], abs=1e-5)
    t = t.roll(1, 0)
    assert all(term.value.item() > 1 for term in peer.terms(*views).values())


def test_partners_are_neighbors():
    assert swap_pairs(torch.arange(6.0)[:, None]).flatten().tolist() == [1, 0, 3, 2, 5, 4]


def test_pairs_are_whole():
    with pytest.raises(ValueError, match=r"stl pairs images: each process needs an even number .* got 7 per process"):
        small(equivariance="stl", batch_size=7)
    with pytest.raises(ValueError, match="got 3 per process"):
        small(equivariance="stl", batch_size=6).check(6, processes=2)
