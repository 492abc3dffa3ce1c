"""One training step: Algorithm 1 of the paper, on a GPU as one CUDA graph."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import torch
from torch import Tensor

from care.objective import Terms, View, teacher_update, total
from care.objective.views import make_view
from care.randomness import derive
from care.train import distributed
from care.train.compiling import compiles, keep_what_is_compiled
from care.train.config import Config
from care.train.distributed import Processes
from care.train.finite import FiniteCheck
from care.train.graph import CALLS_BEFORE_CAPTURE, CALLS_BEFORE_CAPTURE_TOGETHER, Graph
from care.train.optimizers import set_learning_rate
from care.train.schedule import rate_of
from care.train.state import State, kept_of, precise, precision

# How often the loss is checked for being finite on a GPU.
STEPS_BETWEEN_CHECKS = 20
# With fp16, a step that overflows is skipped and the scale of the next one halved, starting from 2¹⁶. A gradient that
# is not finite at this smallest scale is not due to an overflow.
SMALLEST_SCALE = 2.0**-10


class Step:
    """Trains on the micro-batches of a step when called.

    The host only hands over the batch, the learning rate and the seeds. The device does the rest: draw and apply
    augmentations, forward, backward, update. On GPUs this part is captured once as a CUDA graph, including the
    communication with other processes, and replayed: launching its thousand kernels one by one would take the host
    longer than the GPU needs for them.
    """

    def __init__(self, state: State, config: Config, processes: Processes, steps_per_epoch: int) -> None:
        self.state, self.config, self.processes = state, config, processes
        self.steps_per_epoch, self.total_steps = steps_per_epoch, config.epochs * steps_per_epoch
        self.compiled = compiles(config, processes, self.total_steps * config.batch_size)
        if self.compiled:
            keep_what_is_compiled()
            state.objective.compile_networks()
        self.make = torch.compile(make_view, dynamic=False) if self.compiled else make_view
        self.generators = [torch.Generator(processes.device) for _ in range(config.accumulate)]
        few = CALLS_BEFORE_CAPTURE_TOGETHER if processes.together else CALLS_BEFORE_CAPTURE
        self.graph = Graph(self._compute, self.generators, few) if _can_capture(state, config, processes) else None
        # DistributedDataParallel reduces gradients on the stream it was created on, which must be the graph's stream.
        with self.graph.on_its_stream() if self.graph else nullcontext():
            self.parallel = distributed.parallel(state.objective, processes)
        # A tensor, because a CUDA graph reads values that change between steps from memory.
        self.progress = torch.zeros((), dtype=precise(processes.device), device=processes.device)
        self.finite = FiniteCheck(processes.device)

    def __call__(self, inputs: list[Tensor], epoch: int) -> None:
        """Train on the micro-batches `inputs`; FloatingPointError if the loss is not finite, or recently was not."""
        state, config = self.state, self.config
        state.objective.train()
        set_learning_rate(state.optimizer, rate_of(config, state.step, self.steps_per_epoch))
        torch.manual_seed(derive(config.seed, "network", state.step, self.processes.rank))  # of dropout
        for micro, generator in enumerate(self.generators):
            generator.manual_seed(derive(config.seed, "augment", epoch, state.step, micro))
        self.progress.fill_(state.step / self.total_steps)
        (self.graph or self._compute)(*inputs)
        state.step += 1
        if self.processes.device.type != "cpu" and state.step % STEPS_BETWEEN_CHECKS == 0:
            self.finite.ask(state.sums, state.step)

    def _compute(self, *inputs: Tensor) -> None:
        """The device's part. On a CPU, a step with a loss that is not finite raises before the weights are updated."""
        self._differentiate(*inputs)
        if self.processes.device.type == "cpu":
            self.finite.ask(self.state.sums, self.state.step + 1)
        self._update()

    def _differentiate(self, *inputs: Tensor) -> None:
        """Compute the gradient, and add the terms of the loss and the norm of the gradient to the epoch's sums."""
        state, objective = self.state, self.state.objective
        state.optimizer.zero_grad(set_to_none=True)
        for micro, (batch, generator) in enumerate(zip(inputs, self.generators, strict=True)):
            micro_batch = self.config.batch_size // self.config.accumulate
            rows = self.processes.rows(micro_batch)
            views = objective.plan.draw(batch, micro_batch, rows, generator, self.make)
            with self._synchronized(last=micro == len(inputs) - 1):
                terms = self._terms(views)
                loss = total(terms)
                state.scaler.scale(loss / len(inputs)).backward()
            state.add({"loss": loss, **{name: term.value for name, term in terms.items()}}, 1 / len(inputs))
        self._clip()

    def _clip(self) -> None:
        """g ← g · min(1, c / ‖g‖) if a norm c was chosen; ‖g‖ is added to the epoch's sums.

        With fp16 the sums hold no norm: the scaler itself detects steps that overflow and skips them.
        """
        state, largest = self.state, self.config.clip_gradient
        parameters = [p for p in state.objective.parameters() if p.grad is not None]
        if state.scaler.is_enabled() and largest is None:
            return
        state.scaler.unscale_(state.optimizer)
        norm = torch.nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])
        if not state.scaler.is_enabled():
            state.add({"gradient_norm": norm}, 1.0)
        if largest is not None:
            torch.nn.utils.clip_grads_with_norm_(parameters, largest, norm)

    def _update(self) -> None:
        """Update the weights, the method's state and the moving average."""
        state = self.state
        state.scaler.step(state.optimizer)
        state.scaler.update()
        if state.scaler.is_enabled() and state.scaler.get_scale() < SMALLEST_SCALE:
            raise FloatingPointError(f"the gradient is not finite at step {state.step + 1}, however the loss is scaled")
        state.objective.after_step(self.progress)
        if state.ema is not None:
            teacher_update(state.ema, kept_of(state.objective), self.config.ema, buffers=True)

    def _terms(self, views: tuple[View, ...]) -> Terms:
        dtype = precision(self.config, self.processes)
        with torch.autocast(views[0].inputs.device.type, dtype, enabled=dtype != torch.float32):
            terms: Terms = self.parallel(views)
        return terms

    @contextmanager
    def _synchronized(self, last: bool) -> Iterator[None]:
        """Average gradients over processes only once a step, with the last micro-batch."""
        with nullcontext() if last or not self.processes.together else self.parallel.no_sync():  # type: ignore[operator]
            yield


def _can_capture(state: State, config: Config, processes: Processes) -> bool:
    """Whether a CUDA graph can capture the step: on GPUs, unless the host takes part in every step.

    The host checks a scaled loss for overflow, and keeps the random state for activations that are recomputed.
    """
    on_gpu = processes.device.type == "cuda"
    return config.graph and on_gpu and not state.scaler.is_enabled() and not config.activation_checkpointing
