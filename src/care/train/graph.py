"""CUDA graphs: run GPU work without launching each kernel from the host."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

# Ordinary calls before the graph is captured, to compile, choose algorithms and allocate memory.
CALLS_BEFORE_CAPTURE = 3
# DistributedDataParallel needs this many calls until it no longer measures and rearranges its gradient buckets.
CALLS_BEFORE_CAPTURE_TOGETHER = 11


class Graph:
    """A function of GPU tensors that runs normally for its first `few` calls, and is then captured and replayed.

    On replay, the random numbers of `generators` follow the seeds that the generators have at that time.
    """

    def __init__(
        self, function: Callable[..., object], generators: Sequence[torch.Generator], few: int = CALLS_BEFORE_CAPTURE
    ) -> None:
        self.function, self.generators, self.few = function, generators, few
        self.stream, self.calls = torch.cuda.Stream(), 0
        self.graph: torch.cuda.CUDAGraph | None = None
        self.inputs: list[Tensor] = []

    def __call__(self, *inputs: Tensor) -> None:
        """Run the function, directly or by replaying the graph."""
        if self.calls < self.few:
            self._run(inputs)
        else:
            self._replay(inputs)
        self.calls += 1

    def _run(self, inputs: tuple[Tensor, ...]) -> None:
        with self.on_its_stream():
            self.function(*inputs)

    @contextmanager
    def on_its_stream(self) -> Iterator[None]:
        """Use the stream of the later capture, so that memory allocated and algorithms chosen here suit the graph."""
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            yield
        torch.cuda.current_stream().wait_stream(self.stream)

    def _replay(self, inputs: tuple[Tensor, ...]) -> None:
        if self.graph is None:
            self.inputs = [tensor.clone() for tensor in inputs]
            self.graph = torch.cuda.CUDAGraph()
            for generator in self.generators:
                self.graph.register_generator_state(generator)
            # Other threads continue: the batch loader allocates pinned memory, which a global capture would forbid.
            with torch.cuda.graph(self.graph, stream=self.stream, capture_error_mode="thread_local"):
                self.function(*self.inputs)
        torch._foreach_copy_(self.inputs, list(inputs))
        self.graph.replay()
