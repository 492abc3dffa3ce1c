"""Algorithm 1: what is drawn for which sample."""

import torch

from care.augment import apply, simclr
from care.methods import MethodSettings, chunked_views, four_views, two_views
from care.methods.build import view_plan

BATCH, CHUNKS = 32, 4


def drawn(plan, generator):
    """The parameters of every view as numbers [views, batch, columns]."""
    numbers = (view.random_numbers((32, 32), generator) for view in plan.views)
    drawn = zip(plan.views, numbers, strict=True)
    return torch.stack([view.augmentations(BATCH, (32, 32), n).to_vector() for view, n in drawn])


def distinct(rows):
    return len(rows.unique(dim=0))


def test_algorithm_1_draws_two_views_per_sample_and_two_per_chunk(generator):
    plan = four_views(simclr(), simclr(), BATCH, CHUNKS)
    p = drawn(plan, generator)
    assert [distinct(view) for view in p] == [BATCH, BATCH, CHUNKS, CHUNKS]
    chunks = p[2:].view(2, CHUNKS, BATCH // CHUNKS, -1)
    assert torch.equal(chunks, chunks[:, :, :1].expand_as(chunks))
    assert distinct(chunks[:, :, 0].flatten(0, 1)) == 2 * CHUNKS
    assert (plan.siamese, plan.chunked) == ((0, 1), (2, 3))


def test_the_authors_program_shares_one_pair_over_the_batch(generator):
    p = drawn(four_views(simclr(), simclr(), BATCH, CHUNKS, shared_by="batch"), generator)
    assert [distinct(view) for view in p] == [BATCH, BATCH, 1, 1]


def test_views_of_a_chosen_size(generator):
    settings = MethodSettings(equivariance=1.0, chunks=CHUNKS, size=48)
    views = view_plan(settings, BATCH).draw(torch.rand(BATCH, 3, 64, 80), BATCH, slice(None), generator)
    assert [tuple(view.shape) for view in views] == [(BATCH, 3, 48, 48)] * 4


def test_two_views_serve_both_losses(generator):
    for per_chunk, expected in ((0, [BATCH, BATCH]), (1, [CHUNKS, BATCH]), (2, [CHUNKS, CHUNKS])):
        plan = two_views(simclr(), BATCH, CHUNKS, per_chunk)
        assert [distinct(view) for view in drawn(plan, generator)] == expected
        assert plan.chunked == ((0, 1) if per_chunk else ())


def test_equivariance_alone(generator):
    plan = chunked_views(simclr(), CHUNKS)
    assert [distinct(view) for view in drawn(plan, generator)] == [CHUNKS, CHUNKS]
    assert plan.siamese == ()


def test_the_rows_of_a_process_do_not_depend_on_the_number_of_processes(generator):
    images = torch.rand(BATCH, 3, 32, 32, generator=generator)
    plan = four_views(simclr(), simclr(), BATCH, CHUNKS)
    whole = plan.draw(images, BATCH, slice(0, BATCH), torch.Generator().manual_seed(3))
    for rank in range(2):
        rows = slice(rank * BATCH // 2, (rank + 1) * BATCH // 2)
        part = plan.draw(images[rows], BATCH, rows, torch.Generator().manual_seed(3))
        for a, b in zip(whole, part, strict=True):
            assert torch.equal(a[rows], b)


def test_the_views_are_those_of_the_parameters(generator):
    images = torch.rand(BATCH, 3, 32, 32, generator=generator)
    plan = two_views(simclr(), BATCH, CHUNKS, 2)
    views = plan.draw(images, BATCH, slice(None), torch.Generator().manual_seed(3))
    again = torch.Generator().manual_seed(3)
    for view in views:
        p = simclr().sample(CHUNKS, (32, 32), again).repeat(BATCH // CHUNKS)
        assert torch.equal(view, apply(images, p))
