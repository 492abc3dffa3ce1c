"""Batches by index: resident and streamed are the same, and the thread comes and goes."""

import threading

import pytest
import torch

from care.data import Samples, batches, place


@pytest.fixture(params=["images", "clouds", "some of the images"])
def samples(request, generator):
    labels = torch.zeros(50, dtype=torch.int64)
    if request.param == "some of the images":
        many = torch.randint(256, (70, 3, 4, 5), dtype=torch.uint8, generator=generator)
        return Samples(many, torch.zeros(70, dtype=torch.int64), ("x",)).subset(torch.randperm(70)[:50])
    if request.param == "images":
        return Samples(torch.randint(256, (50, 3, 4, 5), dtype=torch.uint8, generator=generator), labels, ("x",))
    return Samples(torch.randn(50, 7, 3, generator=generator), labels, ("x",))


@pytest.fixture
def order(generator):
    """Batches of several sizes, with repeats, and an empty one."""
    return [torch.randint(50, (size,), generator=generator) for size in (8, 8, 3, 0, 50, 1)]


def threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("care-batches")]


@pytest.mark.parametrize("resident", [None, True, False])
def test_batches_are_what_indexing_gives(samples, order, resident):
    found = list(batches(samples, order, "cpu", resident))
    assert len(found) == len(order)
    for batch, indices in zip(found, order, strict=True):
        assert torch.equal(batch, samples.inputs[indices])
    assert threads() == []


def test_streamed_batches_stay_as_they_were_given(samples, order):
    """No buffer is used again while someone holds the batch."""
    first, *rest = batches(samples, [order[0]] * 20, "cpu", resident=False)
    for batch in rest:
        batch.zero_()
    assert torch.equal(first, samples.inputs[order[0]])


def test_the_stream_is_two_batches_ahead_and_no_more(samples):
    asked = []

    def order():
        for i in range(10):
            asked.append(i)
            yield torch.tensor([i])

    stream = batches(samples, order(), "cpu", resident=False)
    assert asked == []
    next(stream)
    assert asked == [0, 1, 2]
    next(stream)
    assert asked == [0, 1, 2, 3]
    stream.close()


def test_closing_early_ends_the_thread(samples):
    stream = batches(samples, iter(lambda: torch.tensor([1]), None), "cpu", resident=False)
    next(stream)
    assert len(threads()) == 1
    stream.close()
    assert threads() == []


@pytest.mark.parametrize("resident", [True, False])
@pytest.mark.parametrize("wrong", [50, -1])
def test_errors_reach_the_consumer_after_the_batches_before(samples, resident, wrong):
    stream = batches(samples, [torch.tensor([1, 2]), torch.tensor([0, wrong])], "cpu", resident)
    assert torch.equal(next(stream), samples.inputs[1:3])
    with pytest.raises(ValueError, match=r"indices go from .* there are 50 samples"):
        next(stream)
    assert threads() == []


def test_an_error_in_the_order_reaches_the_consumer(samples):
    def order():
        yield torch.tensor([1])
        raise RuntimeError("out of order")

    with pytest.raises(RuntimeError, match="out of order"):
        list(batches(samples, order(), "cpu", resident=False))
    assert threads() == []


def test_samples_on_the_host_stay_where_they_are(samples):
    assert place(samples, "cpu").stored.data_ptr() == samples.stored.data_ptr()


def test_resident_on_a_gpu_only_if_they_take_less_than_half_of_what_is_free(monkeypatch, samples):
    from care.data.batches import _fits

    size = samples.inputs.nbytes
    for free, fits in ((2 * size, False), (2 * size + 1, True)):
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device, free=free: (free, 10 * free))
        assert _fits(samples, torch.device("cuda", 0)) is fits
    assert not _fits(samples, torch.device("mps"))


def test_memory_stays_flat_while_streaming(generator):
    """Going through 2,000 batches of 1 MB holds a few of them at a time."""
    import resource

    inputs = torch.randint(256, (64, 3, 64, 64), dtype=torch.uint8, generator=generator)
    samples = Samples(inputs, torch.zeros(64, dtype=torch.int64), ("x",))
    order = [torch.arange(64)] * 20
    for _ in batches(samples, order, "cpu", resident=False):
        pass
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in batches(samples, order * 100, "cpu", resident=False):
        pass
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # kB


@pytest.mark.gpu
class TestOnAGPU:
    """What only a GPU can show."""

    @pytest.mark.parametrize("resident", [None, True, False])
    def test_batches_are_what_indexing_gives(self, samples, order, resident, no_waiting):
        stream = batches(samples, order, "cuda", resident)
        with no_waiting():
            found = list(stream)
        for batch, indices in zip(found, order, strict=True):
            assert batch.is_cuda
            assert torch.equal(batch.cpu(), samples.inputs[indices])

    def test_samples_are_placed_once(self, samples):
        placed = place(samples, "cuda")
        assert placed.inputs.is_cuda
        assert place(placed, "cuda").inputs.data_ptr() == placed.inputs.data_ptr()

    def test_streamed_batches_are_safe_while_the_gpu_is_behind(self, samples):
        """Batches are summed long after the host has let go of them."""
        weights = torch.randn(2048, 2048, device="cuda")
        order, sums = [torch.arange(i, i + 8) for i in range(40)], []
        for batch in batches(samples, order, "cuda", resident=False):
            for _ in range(10):
                weights = weights @ weights * 1e-3
            sums.append(batch.double().sum())
        for found, indices in zip(sums, order, strict=True):
            torch.testing.assert_close(found.cpu(), samples.inputs[indices].double().sum())
