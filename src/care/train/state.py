"""Everything that changes during training: built, saved and restored."""

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from care.data import Samples, batches
from care.models import Encoder, checkpoint_activations, split_batchnorm
from care.objective import Objective, build_encoder, build_objective
from care.randomness import derive
from care.train import checkpoint, distributed
from care.train.config import Config
from care.train.distributed import Processes
from care.train.initial import initial_encoder
from care.train.optimizers import build_optimizer, load_optimizer_state
from care.train.runs import Run, view_shape
from care.train.state_tree import flatten_state, unflatten_state
from care.train.writer import Writer

COUNT, COUNT_DECODED = 10_000, 1000  # images, and pictures to decode, that estimate the mean of their channels
AT_ONCE = 250


@dataclass
class State:
    """The state of a training, as saved in a checkpoint.

    `sums` are the terms of the loss summed over the epoch so far on this process, `ema` is the exponential moving
    average of the modules that the run keeps (`kept_of`), if there is one, and `log` holds a record per finished epoch.
    """

    objective: Objective
    optimizer: torch.optim.Optimizer
    scaler: torch.amp.GradScaler
    ema: nn.ModuleDict | None
    step: int = 0
    sums: dict[str, Tensor] = field(default_factory=dict)
    log: list[dict[str, Any]] = field(default_factory=list)

    @property
    def encoder(self) -> Encoder:
        """The encoder to keep: its moving average, if there is one."""
        return self._kept()["encoder"]  # type: ignore[return-value]

    def exported(self) -> dict[str, Tensor]:
        """The tensors to save beside the encoder, from the moving average if there is one."""
        kept = self._kept()
        return kept["equivariance"].exported() if "equivariance" in kept else {}  # type: ignore[operator]

    def _kept(self) -> nn.ModuleDict:
        return self.ema if self.ema is not None else kept_of(self.objective)

    def add(self, terms: Mapping[str, Tensor], weight: float) -> None:
        """Add the terms of a loss to `sums`, in place, because a CUDA graph replays the addition."""
        for name, term in terms.items():
            if name not in self.sums:
                self.sums[name] = torch.zeros((), dtype=precise(term.device), device=term.device)
            self.sums[name].add_(term.detach().to(self.sums[name].dtype), alpha=weight)

    def clear(self) -> None:
        """Set the sums to zero, in the same memory."""
        for value in self.sums.values():
            value.zero_()

    def save(
        self, run: Run, about: Mapping[str, Any], processes: Processes, writer: Writer, keep_every: int | None = None
    ) -> None:
        """Let rank 0 write a checkpoint in the background, with `about`, the origin of the run.

        All ranks must call this: each has its own sums, and all stop if the previous save has failed.
        """
        sums = {name: distributed.all_gather(value[None]) for name, value in self.sums.items()}
        distributed.on_rank_0(processes, self._hand_over, run, about, sums, writer, keep_every)

    def _hand_over(
        self, run: Run, about: Mapping[str, Any], sums: dict[str, Tensor], writer: Writer, keep_every: int | None
    ) -> None:
        """Hand a copy of the current state to the writer."""
        tensors, rest = flatten_state(
            {
                "objective": dict(self.objective.state_dict()),
                "optimizer": self.optimizer.state_dict(),
                "scaler": self.scaler.state_dict(),
                "ema": None if self.ema is None else dict(self.ema.state_dict()),
                "sums": sums,
            }
        )
        copies, record = checkpoint.snapshot(tensors), {**about, "rest": rest, "log": self.log}
        writer.write(partial(checkpoint.save, run.checkpoints, self.step, copies, record, keep_every=keep_every))

    def restore(self, saved: checkpoint.Checkpoint, processes: Processes) -> None:
        """Restore a saved state; a part that is missing or does not fit is an error."""
        parts = unflatten_state(saved.tensors, saved.state["rest"])
        self.objective.load_state_dict(parts["objective"])
        load_optimizer_state(self.optimizer, parts["optimizer"])
        self.scaler.load_state_dict(parts["scaler"])
        if self.ema is not None:
            self.ema.load_state_dict(parts["ema"])
        self.sums = {name: _share(value, processes).to(processes.device) for name, value in parts["sums"].items()}
        self.step, self.log = saved.step, saved.state["log"]


def kept_of(objective: Objective) -> nn.ModuleDict:
    """The modules of an objective that a run keeps: the encoder, and the equivariance if there is one."""
    beside = {} if objective.equivariance is None else {"equivariance": objective.equivariance}
    return nn.ModuleDict({"encoder": objective.encoder, **beside})


def build_state(config: Config, samples: Samples, processes: Processes, begins: bool = True) -> State:
    """A new objective, its optimizer, and everything else at step 0, the same on every process.

    If the run is resumed (`begins` is false), `init` is not read: the weights are in the checkpoint.
    """
    torch.manual_seed(derive(config.seed, "weights"))
    input_shape = view_shape(config, samples.input_shape)
    if config.init is not None and begins:
        encoder = initial_encoder(config, config.init, input_shape)
    else:
        encoder = build_encoder(config, input_shape, **channel_statistics(samples))
    if config.activation_checkpointing:
        checkpoint_activations(encoder.backbone)
    objective = build_objective(config, encoder, config.batch_size // config.accumulate, processes.world_size)
    if processes.together:
        objective.gather_by(distributed.all_gather, processes.rows(config.batch_size // config.accumulate))
        split_batchnorm(objective, distributed.all_reduce, processes.world_size)
    objective = objective.to(processes.device)
    if len(samples.input_shape) == 2:
        objective = objective.to(memory_format=encoder.memory_format)
    # On a GPU, the learning rate is a tensor there, which a CUDA graph reads.
    on_gpu = processes.device.type == "cuda"
    rate = torch.tensor(config.learning_rate, device=processes.device) if on_gpu else config.learning_rate
    optimizer = build_optimizer(
        objective,
        config.optimizer,
        rate,
        config.weight_decay,
        config.sgd_momentum,
        config.norm_bias_decay,
        apart=encoder.equivariant_head if config.stop_gradient else None,
    )
    scaler = torch.amp.GradScaler(processes.device.type, enabled=precision(config, processes) == torch.float16)
    ema = copy.deepcopy(kept_of(objective)).requires_grad_(False) if config.ema else None
    return State(objective, optimizer, scaler, ema)


def _share(values: Tensor, processes: Processes) -> Tensor:
    """The process's own sum or, if the number of processes has changed, a share that preserves the mean over all."""
    values = values.reshape(-1)
    return values[processes.rank].clone() if len(values) == processes.world_size else values.mean()


def channel_statistics(samples: Samples) -> dict[str, tuple[float, ...]]:
    """Mean and standard deviation of each channel over the first images, E x and √(E x² − (E x)²), a few at once.

    Empty for point clouds, which are already centered and of unit size.
    """
    if len(samples.input_shape) == 1:
        return {}
    moments = torch.zeros(2, 3, dtype=torch.float64)
    few = samples.limit(min(COUNT_DECODED if samples.streamed else COUNT, len(samples)))
    for block in batches(few, torch.arange(len(few)).split(AT_ONCE), few.device):
        x = block.double() / 255
        moments += torch.stack([x.sum((0, 2, 3)), x.square().sum((0, 2, 3))]).cpu()
    mean, square = moments / (len(few) * math.prod(few.input_shape))
    std = (square - mean.square()).clamp_min(0).sqrt().clamp_min(1e-3)
    return {"mean": tuple(mean.tolist()), "std": tuple(std.tolist())}


def precision(config: Config, processes: Processes) -> torch.dtype:
    """The dtype of the forward pass: as chosen, or fp32 on a CPU, bf16 on a GPU, or fp16 on a GPU without bf16."""
    chosen = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
    return chosen.get(config.precision) or _automatic(processes.device)


def _automatic(device: torch.device) -> torch.dtype:
    if device.type != "cuda":
        return torch.float32
    return torch.bfloat16 if torch.cuda.is_bf16_supported(including_emulation=False) else torch.float16


def precise(device: torch.device) -> torch.dtype:
    """The dtype of sums over an epoch; Apple's GPUs have no float64."""
    return torch.float32 if device.type == "mps" else torch.float64
