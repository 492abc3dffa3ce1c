"""Batches: samples gathered by index, on the device.

Samples that fit into the device's memory are copied there once and gathered there. Others are gathered on the host by a
thread that prefetches two batches and copies them while the device computes. Both ways give the same batches. Pictures
that are not prepared are decoded by worker processes before the thread copies them, or by the GPU in the thread's
stream.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import chain, islice

import torch
from jaxtyping import Int64, Shaped
from torch import Tensor

from care.data.samples import Samples
from care.data.streamed.decoders import Decoders
from care.data.streamed.gpu_decoders import GpuDecoders, nvjpeg
from care.data.streamed.pictures import StreamedPictures

# The share of a GPU's free memory that resident samples may take; the rest is for the encoder.
RESIDENT_SHARE = 0.5
BATCHES_AHEAD = 2

Gather = Callable[[bool], Tensor]  # makes a batch: on the host, in pinned memory if true, or already on the device


def batches(
    samples: Samples,
    order: Iterable[Int64[Tensor, " _"]],
    device: torch.device | str,
    resident: bool | None = None,
    whole: bool = False,
) -> Iterator[Shaped[Tensor, "_ ..."]]:
    """`samples.inputs[indices]` on `device` for each tensor of indices in `order`.

    `resident` says whether all inputs are first copied to the device; None leaves it to `place`. Every call makes that
    copy: for several epochs, `place` the samples once and pass the result. Indices may be on the host or on the device;
    indices on the host are checked.

    With `whole`, pictures that are not prepared are returned uncropped, in the format of `care.whole_pictures`, for
    random crops. No batch of such pictures may be larger than the first one.
    """
    device = _resolved(device)
    placed = place(samples, device, resident)
    if isinstance(placed.stored, StreamedPictures):
        return _decode(placed, placed.stored, order, device, whole)
    if placed.device == device and (device.type != "cpu" or resident is not False):
        return (_gather_on_device(placed, indices) for indices in order)
    return _stream(placed.to("cpu"), order, device)


def place(samples: Samples, device: torch.device | str, resident: bool | None = None) -> Samples:
    """The samples on the device if `resident`, otherwise unchanged.

    By default they are resident if the inputs take less than half of a GPU's free memory. Pictures that are not
    prepared stay on the disk.
    """
    device = _resolved(device)
    if resident is None:
        resident = not samples.streamed and _fits(samples, device)
    return samples.to(device) if resident else samples


def _fits(samples: Samples, device: torch.device) -> bool:
    if samples.device == device or device.type == "cpu":
        return True
    return device.type == "cuda" and samples.nbytes < RESIDENT_SHARE * torch.cuda.mem_get_info(device)[0]


def _resolved(device: torch.device | str) -> torch.device:
    """The device with its index: "cuda" means the current GPU, which may differ between threads."""
    return torch.empty(0, device=device).device


def _gather_on_device(samples: Samples, indices: Int64[Tensor, " batch"]) -> Tensor:
    """Gather on the device of the samples. The host does not wait: indices go through pinned memory."""
    if indices.device.type == "cpu":
        _check(indices, len(samples))
        if samples.device.type == "cuda":
            indices = indices.pin_memory().to(samples.device, non_blocking=True)
    return samples.stored.index_select(0, _rows(samples, indices))


def _rows(samples: Samples, indices: Int64[Tensor, " batch"]) -> Int64[Tensor, " batch"]:
    """The positions of the samples among the stored inputs."""
    return indices if samples.rows is None else samples.rows.index_select(0, indices)


def _stream(samples: Samples, order: Iterable[Tensor], device: torch.device) -> Iterator[Tensor]:
    """Batches that the thread gathers from memory."""
    gathers = (partial(_gather_on_host, samples, indices.cpu()) for indices in order)
    yield from _send_all(gathers, device, BATCHES_AHEAD)


def _decode(
    samples: Samples, pictures: StreamedPictures, order: Iterable[Tensor], device: torch.device, whole: bool
) -> Iterator[Tensor]:
    """Batches that worker processes decode while the thread waits, or that the thread decodes on the GPU."""
    order = iter(order)
    first = next(order, None)
    if first is None:
        return
    with _decoders(pictures, max(1, len(first)), whole, device) as decoders:

        def request(indices: Tensor) -> Gather:
            _check(indices, len(samples))
            return decoders.request(_rows(samples, indices))

        gathers = (request(indices.cpu()) for indices in chain([first], order))
        yield from _send_all(gathers, device, decoders.ahead)


def _decoders(pictures: StreamedPictures, rows: int, whole: bool, device: torch.device) -> Decoders | GpuDecoders:
    if pictures.decoder == "gpu" and device.type == "cuda":
        return GpuDecoders(pictures, whole, device, nvjpeg(device))
    return Decoders(pictures, rows, whole)


def _send_all(gathers: Iterator[Gather], device: torch.device, ahead: int) -> Iterator[Tensor]:
    """A thread gathers batches and starts their copies; closing the iterator waits for the current one and ends it."""
    side = torch.cuda.Stream(device) if device.type == "cuda" else None
    # A new thread would otherwise register its pinned memory with GPU 0, whichever one this process uses.
    start = partial(torch.cuda.set_device, device) if side else None
    with ThreadPoolExecutor(1, "care-batches", initializer=start) as thread:
        requests = (thread.submit(_send, gather, device, side) for gather in gathers)
        waiting: deque[Future[tuple[Tensor, torch.cuda.Event | None]]] = deque(islice(requests, ahead))
        try:
            while waiting:
                batch, copied = waiting.popleft().result()
                waiting.extend(islice(requests, 1))
                yield _received(batch, copied)
        finally:
            thread.shutdown(wait=True, cancel_futures=True)


def _gather_on_host(samples: Samples, indices: Int64[Tensor, " batch"], pin: bool) -> Tensor:
    _check(indices, len(samples))
    inputs, shape = samples.stored, (len(indices), *samples.stored.shape[1:])
    assert isinstance(inputs, Tensor)
    # Pinned memory comes from torch's cache, which does not reuse it before the copy is done.
    here = torch.empty(shape, dtype=inputs.dtype, pin_memory=pin)
    return torch.index_select(inputs, 0, _rows(samples, indices), out=here)


def _send(
    gather: Gather, device: torch.device, side: torch.cuda.Stream | None
) -> tuple[Tensor, torch.cuda.Event | None]:
    """Make a batch and start its copy to the device; the event is recorded after the copy."""
    if side is None:
        return gather(False).to(device), None
    with torch.cuda.stream(side):
        batch = gather(True).to(device, non_blocking=True)
        copied = torch.cuda.Event()
        copied.record(side)
    return batch, copied


def _received(batch: Tensor, copied: torch.cuda.Event | None) -> Tensor:
    """Make the current stream wait for the copy, and keep the batch's memory until that stream is done with it."""
    if copied is not None:
        stream = torch.cuda.current_stream(batch.device)
        stream.wait_event(copied)
        batch.record_stream(stream)
    return batch


def _check(indices: Int64[Tensor, " batch"], n: int) -> None:
    if len(indices) and not (indices.min() >= 0 and indices.max() < n):
        raise ValueError(f"indices go from {indices.min()} to {indices.max()}, but there are {n} samples")
