"""Timing: blocks of calls, and the median over blocks."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

BLOCKS = 5
# No more blocks once this many times the planned time has passed.
PATIENCE = 2


@dataclass(frozen=True)
class Timing:
    """Seconds per call: the median over blocks of calls, and the fastest and the slowest block."""

    median: float
    fastest: float
    slowest: float
    calls: int


def time_calls(
    call: Callable[[], object],
    device: torch.device,
    seconds: float,
    warmup: int = 2,
    multiple: int = 1,
    agree: Callable[[int], int] = lambda calls: calls,
    begun: Callable[[float], None] = lambda seconds: None,
) -> Timing:
    """Time `call` in blocks that take about `seconds` together; the host waits for the device between blocks only.

    The calls of a block are a multiple of `multiple`, for batches that arrive in bursts of this size. `agree` turns a
    number that this process would choose into the one that all processes use. Calls that turn out far slower than
    expected get fewer blocks, and a call that takes longer than `seconds` is timed once. `begun` is called with the
    seconds of the first call, which may include compiling.
    """
    begun(seconds_of(call, 1, device))
    for _ in range(warmup - 1):
        call()
    once = seconds_of(call, multiple, device) / multiple
    if agree(int(once * multiple > seconds)):
        return Timing(once, once, once, multiple)
    calls = agree(multiple * max(1, round(seconds / BLOCKS / max(once, 1e-9) / multiple)))
    times = [seconds_of(call, calls, device) / calls]
    while len(times) < BLOCKS and not agree(int(sum(times) * calls > PATIENCE * seconds)):
        times.append(seconds_of(call, calls, device) / calls)
    return Timing(statistics.median(times), min(times), max(times), calls * len(times))


def synchronize(device: torch.device) -> None:
    """Wait until the device has done all that it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def seconds_of(call: Callable[[], object], calls: int, device: torch.device) -> float:
    """Seconds that `calls` calls take together, until the device has done them."""
    synchronize(device)
    started = time.perf_counter()
    for _ in range(calls):
        call()
    synchronize(device)
    return time.perf_counter() - started
