import itertools

import torch

from care.randomness import derive, epoch_order, generator_for


def test_every_use_has_its_own_stream():
    uses = list(itertools.product(range(3), ("augment", "order"), range(5), range(20)))
    assert len({derive(*use) for use in uses}) == len(uses)
    assert derive(1, 23) != derive(12, 3)
    assert all(0 <= derive(*use) < 2**63 for use in uses)


def test_the_same_use_gives_the_same_numbers():
    a, b, c = (torch.rand(5, generator=generator_for("cpu", 0, "augment", step)) for step in (1, 1, 2))
    assert torch.equal(a, b)
    assert not torch.equal(a, c)


def test_epochs_visit_everything_in_different_orders():
    first, second = epoch_order(100, seed=0, epoch=0), epoch_order(100, seed=0, epoch=1)
    assert sorted(first.tolist()) == list(range(100))
    assert not torch.equal(first, second)
    assert torch.equal(first, epoch_order(100, seed=0, epoch=0))
