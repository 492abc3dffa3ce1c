"""Work on a GPU without the host launching each kernel of it."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

# Calls from the host before the graph is captured: they compile, choose algorithms and allocate.
CALLS_BEFORE_CAPTURE = 3
# With DistributedDataParallel, as many as it takes until it no longer measures and rearranges what it sends.
CALLS_BEFORE_CAPTURE_TOGETHER = 11


class Graph:
    """A function of tensors on a GPU that is run a `few` times, then captured as a CUDA graph, and replayed after that.

    The random numbers of captured generators follow the seeds that they have when the graph is replayed.
    """

    def __init__(
        self, function: Callable[..., object], generators: Sequence[torch.Generator], few: int = CALLS_BEFORE_CAPTURE
    ) -> None:
        self.function, self.generators, self.few = function, generators, few
        self.stream, self.calls = torch.cuda.Stream(), 0
        self.graph: torch.cuda.CUDAGraph | None = None
        self.inputs: list[Tensor] = []

    def __call__(self, *inputs: Tensor) -> None:
        """Run the function, one way or the other."""
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
        """As capturing will be: what is allocated and chosen on a stream of its own is good for the graph."""
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
            # Other threads go on: the one that loads batches allocates pinned memory, which a global capture forbids.
            with torch.cuda.graph(self.graph, stream=self.stream, capture_error_mode="thread_local"):
                self.function(*self.inputs)
        torch._foreach_copy_(self.inputs, list(inputs))
        self.graph.replay()
