"""What holds for the losses whatever the embeddings are."""

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given

from care.losses import barlow_twins, equivariance, info_nce, invariance, queue_info_nce, uniformity, vicreg
from losses import literal
from properties.points import chunked, orthogonal, points

ALL = [info_nce, invariance, uniformity, equivariance, barlow_twins, vicreg]


def close(a, b, tolerance=1e-9):
    a, b = (torch.as_tensor(x, dtype=torch.float64) for x in (a, b))
    torch.testing.assert_close(a, b, atol=tolerance, rtol=tolerance)


@given(chunked(), st.data())
def test_one_rotation_per_chunk_changes_nothing(batch, data):
    """L_equi is blind to any R_c ∈ O(d) that acts on all of a chunk in one view: the paper's point."""
    z1, z2, chunks = batch
    parts = z2.unflatten(0, (chunks, -1))
    turned = torch.stack([part @ data.draw(orthogonal(z2.shape[1])).T for part in parts]).flatten(0, 1)
    close(equivariance(z1, turned, chunks), equivariance(z1, z2, chunks))


@given(chunked(zeros=False))
def test_it_is_zero_if_and_only_if_the_angles_agree(batch):
    """The mean square of what the Gram matrices of the unit vectors differ by, off the diagonal."""
    z1, z2, chunks = batch
    u1, u2 = (torch.nn.functional.normalize(z).unflatten(0, (chunks, -1)) for z in (z1, z2))
    m = u1.shape[1]
    off = ~torch.eye(m, dtype=torch.bool)
    close(equivariance(z1, z2, chunks), (u1 @ u1.mT - u2 @ u2.mT)[:, off].square().mean())
    close(equivariance(z1, 3 * z1, chunks), 0.0)


@given(chunked())
def test_both_views_count_alike(batch):
    z1, z2, chunks = batch
    close(equivariance(z1, z2, chunks), equivariance(z2, z1, chunks))
    for loss in (info_nce, invariance, uniformity, vicreg):
        close(loss(z1, z2), loss(z2, z1))


@given(chunked(), st.randoms(use_true_random=False))
def test_the_order_of_the_batch_does_not_matter(batch, random):
    z1, z2, chunks = batch
    order = list(range(len(z1)))
    random.shuffle(order)
    for loss in (info_nce, invariance, uniformity, barlow_twins, vicreg):
        close(loss(z1[order], z2[order]), loss(z1, z2), 1e-7)
    whole = torch.arange(len(z1)).unflatten(0, (chunks, -1))
    chunk_order = whole[torch.randperm(chunks, generator=torch.Generator().manual_seed(random.randrange(99)))].flatten()
    close(equivariance(z1[chunk_order], z2[chunk_order], chunks), equivariance(z1, z2, chunks))


@given(chunked(zeros=False), st.floats(0.05, 5))
def test_info_nce_is_the_double_loop(batch, temperature):
    z1, z2, _ = batch
    close(info_nce(z1, z2, temperature=temperature), literal.info_nce(z1, z2, temperature=temperature), 1e-8)


@pytest.mark.parametrize("loss", ALL, ids=lambda loss: loss.__name__)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@given(batch=chunked())
def test_gradients_are_finite_everywhere(loss, dtype, batch):
    """Zero vectors, repeated rows, rank-deficient batches, and both views the same."""
    for z1, z2 in (batch[:2], (batch[0], batch[0]), (0 * batch[0], batch[1]), (0 * batch[0], 0 * batch[1])):
        inputs = [z.to(dtype).clone().requires_grad_() for z in (z1, z2)]
        value = loss(*inputs)
        value.backward()
        assert value.isfinite()
        assert all(z.grad.isfinite().all() for z in inputs)


@given(points(4, 3), points(4, 3), points(5, 3))
def test_gradients_of_the_queue_are_finite_everywhere(query, key, queue):
    query.requires_grad_()
    queue_info_nce(query, key, queue, temperature=0.1).backward()
    assert query.grad.isfinite().all()
