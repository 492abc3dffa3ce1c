"""Algorithm 1: what is drawn for which sample."""

import pytest
import torch

from care.augment import apply, coordinates, simclr
from care.objective import view_plan
from objective.small import small

BATCH, CHUNKS = 32, 4


def plan_of(**chosen):
    sizes = {"batch_size": BATCH, **({"chunks": CHUNKS} if "equivariance" in chosen else {})}
    return view_plan(small(**sizes, **chosen), BATCH)


def parameters(plan, generator):
    """The parameters of every view as numbers [views, batch, columns]."""
    found = []

    def note(policy, inputs, numbers, _):
        found.append(policy.from_numbers(numbers, (32, 32)).to_vector())
        return inputs, None

    plan.draw(torch.zeros(BATCH, 3, 32, 32), BATCH, slice(None), generator, note)
    return torch.stack(found)


def distinct(rows):
    return len(rows.unique(dim=0))


def test_algorithm_1_draws_two_views_per_sample_and_two_per_chunk(generator):
    plan = plan_of(equivariance="care")
    p = parameters(plan, generator)
    assert [distinct(view) for view in p] == [BATCH, BATCH, CHUNKS, CHUNKS]
    chunks = p[2:].view(2, CHUNKS, BATCH // CHUNKS, -1)
    assert torch.equal(chunks, chunks[:, :, :1].expand_as(chunks))
    assert distinct(chunks[:, :, 0].flatten(0, 1)) == 2 * CHUNKS
    assert (plan.method, plan.equivariance) == ((0, 1), (2, 3))


@pytest.mark.parametrize(
    ("chosen", "draws", "shared"),
    [
        ({}, [BATCH, BATCH], ()),
        ({"equivariance": "care", "augmentation_per": "batch"}, [BATCH, BATCH, 1, 1], (2, 3)),
        ({"equivariance": "care", "equivariance_views": "shared"}, [CHUNKS, CHUNKS], (0, 1)),
        ({"equivariance": "care", "equivariance_views": "mixed"}, [CHUNKS, BATCH], (0, 1)),
        ({"method": "none", "equivariance": "care"}, [CHUNKS, CHUNKS], (0, 1)),
    ],
    ids=str,
)
def test_who_shares_an_augmentation(chosen, draws, shared, generator):
    plan = plan_of(**chosen)
    assert [distinct(view) for view in parameters(plan, generator)] == draws
    assert plan.equivariance == shared
    assert plan.method == (() if chosen.get("method") == "none" else (0, 1))


@pytest.mark.parametrize("size", [None, 48])
def test_all_views_have_the_size_of_the_methods_policy(size, generator):
    """Also where the policies have sizes of their own, as 224 and 32 pixels."""
    plan = plan_of(equivariance="split", policy="mocov2", equivariance_policy="hue_only", size=size)
    views = plan.draw(torch.rand(BATCH, 3, 64, 80), BATCH, slice(None), generator)
    assert {tuple(view.inputs.shape) for view in views} == {(BATCH, 3, size or 224, size or 224)}


def test_the_rows_of_a_process_do_not_depend_on_the_number_of_processes(generator):
    images = torch.rand(BATCH, 3, 32, 32, generator=generator)
    plan = plan_of(equivariance="steering")
    whole = plan.draw(images, BATCH, slice(0, BATCH), torch.Generator().manual_seed(3))
    halves = [slice(0, BATCH // 2), slice(BATCH // 2, BATCH)]
    parts = [plan.draw(images[rows], BATCH, rows, torch.Generator().manual_seed(3)) for rows in halves]
    for view, *split in zip(whole, *parts, strict=True):
        assert torch.equal(view.inputs, torch.cat([part.inputs for part in split]))
        if view.theta is not None:
            assert torch.equal(view.theta, torch.cat([part.theta for part in split]))
    assert [view.theta is not None for view in whole] == [False, False, True, True]


@pytest.mark.parametrize("views", ["own", "shared", "mixed"])
def test_views_and_coordinates_are_those_of_the_augmentations(views, generator):
    images = torch.rand(BATCH, 3, 32, 32, generator=generator)
    plan = plan_of(equivariance="steering", equivariance_views=views)
    found = plan.draw(images, BATCH, slice(None), torch.Generator().manual_seed(3))
    again = torch.Generator().manual_seed(3)
    for spec, view in zip(plan.views, found, strict=True):
        p = simclr().sample(spec.draws, (32, 32), again)
        assert torch.equal(view.inputs, apply(images, p.repeat(BATCH // spec.draws)))
        if view.theta is not None:
            assert torch.equal(view.theta, coordinates(p))


def test_the_identity_is_of_the_chunks_alone(generator):
    plan = plan_of(equivariance="care", identity_probability=1.0)
    images = torch.randint(256, (BATCH, 3, 32, 32), dtype=torch.uint8, generator=generator)
    *own, a, b = plan.draw(images, BATCH, slice(0, BATCH), generator)
    assert torch.equal(a.inputs, images / 255)
    assert torch.equal(b.inputs, images / 255)
    assert not any(torch.equal(view.inputs, images / 255) for view in own)


@pytest.mark.parametrize("per", ["chunk", "batch"])
def test_views_of_a_fraction_are_the_first_of_each_chunk(per, generator):
    """Of the same draws as the views of all, and of the same samples however many processes share the batch."""
    images = torch.rand(BATCH, 3, 32, 32, generator=generator)
    chosen = {"equivariance": "steering", "augmentation_per": per}
    whole, quarter = (plan_of(**chosen, equivariance_fraction=fraction) for fraction in (1.0, 0.25))
    all_rows, halves = slice(0, BATCH), [slice(0, BATCH // 2), slice(BATCH // 2, BATCH)]
    everything, part = (
        plan.draw(images, BATCH, all_rows, torch.Generator().manual_seed(3)) for plan in (whole, quarter)
    )
    first = [i for i in range(BATCH) if i % (BATCH // CHUNKS) < BATCH // CHUNKS // 4]
    for i in (0, 1):
        assert torch.equal(part[i].inputs, everything[i].inputs)
    for i in (2, 3):
        assert torch.equal(part[i].inputs, everything[i].inputs[first])
        assert torch.equal(part[i].theta, everything[i].theta)
    shared = [quarter.draw(images[rows], BATCH, rows, torch.Generator().manual_seed(3)) for rows in halves]
    for i, view in enumerate(part):
        assert torch.equal(view.inputs, torch.cat([one[i].inputs for one in shared]))


def test_views_of_a_fraction_keep_their_memory_format(generator):
    images = torch.rand(BATCH, 3, 32, 32, generator=generator).contiguous(memory_format=torch.channels_last)
    views = plan_of(equivariance="care", equivariance_fraction=0.25).draw(images, BATCH, slice(None), generator)
    assert len(views[2].inputs) == BATCH // 4
    assert views[2].inputs.is_contiguous(memory_format=torch.channels_last)
