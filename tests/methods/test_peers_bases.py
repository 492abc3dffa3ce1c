"""Peers on the bases that the contract leaves out: what a peer adds does not change what the base does."""

import pytest
import torch

from objective.small import build, drawn, noise

BASES = ("simsiam", "barlow_twins", "vicreg")
BESIDE = ("augself", "equimod", "essl", "steerable", "duet", "looc")  # these leave views and embedding to the base
CHANGING = ("sie", "stl", "cassle")  # these split the embedding, pair the images, or tell the head


@pytest.mark.parametrize("base", BASES)
def test_the_loss_of_the_base_is_what_it_is_alone(base):
    alone = build(method=base)
    expected = alone(drawn(alone, noise()))[base].value
    for peer in BESIDE:
        objective = build(method=base, equivariance=peer)
        terms = objective(drawn(objective, noise()))
        torch.testing.assert_close(terms.pop(base).value, expected, rtol=1e-9, atol=1e-12)
        assert terms, peer
        assert all(term.value.isfinite() for term in terms.values()), peer


@pytest.mark.parametrize("base", BASES)
def test_those_that_change_it_train_the_backbone_through_it(base):
    for peer in CHANGING:
        objective = build(method=base, equivariance=peer)
        value, _ = objective(drawn(objective, noise()))[base]
        value.backward()
        gradients = [p.grad for p in objective.encoder.backbone.parameters()]
        assert all(g is not None and g.isfinite().all() for g in gradients), peer
        assert any(g.abs().max() > 0 for g in gradients), peer
