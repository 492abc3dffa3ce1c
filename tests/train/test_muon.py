"""Muon against torch's, singular values and Adam."""

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.optim import Adam

from care.train import muon
from care.train.muon import Muon, orthogonal
from care.train.optimizers import build_optimizer


@pytest.mark.parametrize("shape", [(6, 6), (3, 40), (40, 3), (64, 576)])
def test_matrices_become_nearly_orthogonal(shape, generator):
    M = torch.randn(2, *shape, generator=generator)
    found = orthogonal(M)
    S = torch.linalg.svdvals(found)
    assert S.min() > 0.6
    assert S.max() < 1.3
    left, _, right = torch.linalg.svd(M, full_matrices=False)
    torch.testing.assert_close(
        (left.mT @ found @ right.mT).diagonal(dim1=1, dim2=2).mean(1), S.mean(1), atol=0.02, rtol=0
    )


@pytest.mark.parametrize("spread", [0, 3, 6])
@pytest.mark.parametrize("shape", [(16, 16), (16, 25), (16, 144), (144, 16)])
def test_every_singular_value_passes_the_polynomial_five_times(shape, spread, generator):
    """Also if they spread over six orders of magnitude, to a fraction of what bfloat16 on a GPU has."""
    left, _, right = torch.linalg.svd(torch.randn(2, *shape, generator=generator), full_matrices=False)
    S = torch.logspace(0, -spread, 16).expand(2, -1)
    expected = S / S.norm(dim=1, keepdim=True)
    for _ in range(muon.ITERATIONS):
        expected = sum(c * expected**power for c, power in zip(muon.COEFFICIENTS, (1, 3, 5), strict=True))
    literal = left * expected[:, None] @ right
    found = orthogonal(left * S[:, None] @ right)
    assert (found - literal).norm() < 1e-3 * literal.norm()


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="torch has Muon since 2.9")
@pytest.mark.parametrize("shape", [(12, 12), (8, 40)])
def test_steps_of_matrices_are_torchs(shape, generator):
    """To the bfloat16 in which torch iterates, over five steps."""
    ours, theirs = (nn.Parameter(torch.ones(shape)) for _ in range(2))
    mine = Muon([ours], lr=0.1, momentum=0.9, weight_decay=0.01)
    others = torch.optim.Muon([theirs], lr=0.1, momentum=0.9, weight_decay=0.01, adjust_lr_fn="match_rms_adamw")
    for _ in range(5):
        ours.grad = torch.randn(shape, generator=generator)
        theirs.grad = ours.grad.clone()
        mine.step()
        others.step()
    moved = (theirs.detach() - 1).norm()
    assert (ours.detach() - theirs.detach()).norm() < 0.05 * moved


def test_kernels_of_a_convolution_are_rows_of_a_matrix(generator):
    kernels, matrix = nn.Parameter(torch.zeros(4, 3, 2, 2)), nn.Parameter(torch.zeros(4, 12))
    kernels.grad = torch.randn(4, 3, 2, 2, generator=generator).to(memory_format=torch.channels_last)
    matrix.grad = kernels.grad.reshape(4, 12)
    for w in (kernels, matrix):
        Muon([w], lr=0.1).step()
    torch.testing.assert_close(kernels.detach().reshape(4, 12), matrix.detach())
    assert matrix.detach().square().mean().sqrt() == pytest.approx(0.1 * 0.2, rel=0.3)  # as large as a step of Adam


def test_matrices_of_several_shapes_step_together_as_each_by_itself(generator):
    """Those of one min(r, c) share a tensor: wide, tall, kernels and a short one beside which there are zeros."""
    shapes = [(4, 12), (4, 40), (30, 4), (4, 3, 2, 2), (4, 4), (7, 9), (4, 900), (8, 9)]
    together, apart = ([nn.Parameter(torch.zeros(shape)) for shape in shapes] for _ in range(2))
    for w, v in zip(together, apart, strict=True):
        w.grad = torch.randn(w.shape, generator=generator)
        v.grad = w.grad.clone()
        Muon([v], lr=0.1).step()
    Muon(together, lr=0.1).step()
    for w, v in zip(together, apart, strict=True):
        torch.testing.assert_close(w, v)
        assert w.abs().min() > 0


def test_a_matrix_that_is_far_longer_leaves_no_zeros_beside_the_others(monkeypatch, generator):
    """As the 64 maps of STL are, beside the kernels of a network."""
    made = []
    monkeypatch.setattr(muon, "orthogonal", lambda M: made.append(tuple(M.shape)) or orthogonal(M))
    weights = [nn.Parameter(torch.zeros(shape)) for shape in [(4, 900), (4, 12), (40, 4)]]
    for w in weights:
        w.grad = torch.randn(w.shape, generator=generator)
    Muon(weights, lr=0.1).step()
    assert made == [(2, 4, 40), (1, 4, 900)]


def test_what_is_apart_takes_the_steps_of_adam_and_leaves_all_others_as_they_are(generator):
    ours, alone = (nn.Sequential(nn.Linear(5, 4), nn.Linear(4, 3)).double() for _ in range(2))
    alone.load_state_dict(ours.state_dict())
    mine = build_optimizer(ours, "muon", 0.01, weight_decay=0.1, apart=ours[1])
    others = build_optimizer(alone[0], "muon", 0.01, weight_decay=0.1), Adam(alone[1].parameters(), 0.01, (0.9, 0.999))
    for _ in range(4):
        for w, v in zip(ours.parameters(), alone.parameters(), strict=True):
            w.grad = torch.randn(w.shape, generator=generator, dtype=torch.float64)
            v.grad = w.grad.clone()
        for optimizer in (mine, *others):
            optimizer.step()
    for w, v in zip(ours.parameters(), alone.parameters(), strict=True):
        torch.testing.assert_close(w, v, rtol=1e-9, atol=1e-12)


def test_norms_and_biases_take_the_steps_of_adam(generator):
    torch.manual_seed(0)
    ours, theirs = (nn.BatchNorm1d(5).double() for _ in range(2))
    mine = build_optimizer(ours, "muon", 0.01, weight_decay=0.1)
    adam = Adam(theirs.parameters(), lr=0.01)
    for _ in range(4):
        for w, v in zip(ours.parameters(), theirs.parameters(), strict=True):
            w.grad = torch.randn(5, generator=generator, dtype=torch.float64)
            v.grad = w.grad.clone()
        mine.step()
        adam.step()
    for w, v in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(w, v, rtol=1e-10, atol=1e-12)


def test_the_host_never_waits():
    """Fake tensors have shapes but no values: code that would read a value off the GPU raises on them."""
    with FakeTensorMode():
        weights = [nn.Parameter(torch.empty(shape)) for shape in ((3, 3), (3, 3), (4, 2, 3, 3), (5,))]
        optimizer = build_optimizer([(str(i), w) for i, w in enumerate(weights)], "muon", torch.empty(()), 0.1)
        for _ in range(2):
            for w in weights:
                w.grad = torch.empty_like(w)
            optimizer.step()


def test_a_matrix_without_gradient_stays():
    w = nn.Parameter(torch.ones(3, 3))
    w.grad = torch.zeros(3, 3)
    Muon([w], lr=1.0).step()
    assert torch.equal(w.detach(), torch.ones(3, 3))
