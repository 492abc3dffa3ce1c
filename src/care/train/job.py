"""A training job: checked before anything is computed, and constant from the first step to the last."""

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from care import data
from care.atomic_files import Lock
from care.data import Samples
from care.data.registry import heldout_split
from care.data.streamed.gpu_decoders import nvjpeg
from care.objective import policy_for
from care.train import distributed
from care.train.arithmetic import set_cublas_workspace
from care.train.checks import check_objective, check_unchanged
from care.train.compiling import compiles, start_compilers
from care.train.config import Config
from care.train.distributed import Processes
from care.train.runs import Run, view_shape

PIXELS_PER_PIXEL = 8 / 7  # decoded pixels per pixel of a view, along a side
FEWEST_MEASURED = 2  # held-out samples: the measures compare angles between them


@dataclass(frozen=True)
class Saving:
    """When the state is saved: after every `every` epochs, and when `minutes` have passed since the last save.

    The newest checkpoints are kept. Those of epochs that are a multiple of `keep_every` are kept for good.
    """

    minutes: float = 15.0
    every: int = 1
    keep_every: int | None = None

    def __post_init__(self) -> None:
        if self.keep_every is not None and self.keep_every % self.every:
            raise ValueError(f"keep_every must be a multiple of save_every, {self.every}, got {self.keep_every}")


@dataclass(frozen=True)
class Job:
    """Everything that stays constant during training. `data` is the digest of the data set."""

    config: Config
    run: Run
    resume: bool
    processes: Processes
    samples: Samples
    heldout: Samples
    data: str
    lock: Lock | None
    saving: Saving = field(default_factory=Saving)

    @property
    def steps_per_epoch(self) -> int:
        """The number of full batches; samples left over are seen in other epochs, whose orders differ."""
        return len(self.samples) // self.config.batch_size

    @property
    def total_steps(self) -> int:
        """The number of steps of the whole run."""
        return self.config.epochs * self.steps_per_epoch

    @property
    def about(self) -> dict[str, Any]:
        """The origin of a checkpoint, saved with it: configuration, shape of a view, digest of the data."""
        input_shape = view_shape(self.config, self.samples.input_shape)
        return {"config": self.config.to_toml(), "source": list(input_shape), "data": self.data}

    def saves_after(self, step: int) -> bool:
        """Whether the state is saved after this step because it ends an epoch."""
        epoch, rest = divmod(step, self.steps_per_epoch)
        return rest == 0 and (epoch % self.saving.every == 0 or epoch == self.config.epochs)

    @property
    def keep_every(self) -> int | None:
        """The checkpoints of steps that are a multiple of this are kept for good."""
        return self.saving.keep_every and self.saving.keep_every * self.steps_per_epoch

    @property
    def micro_batch(self) -> int:
        """The number of samples, over all processes, that go through the network at once."""
        return self.config.batch_size // self.config.accumulate


def prepare(
    config: Config,
    out: str | Path,
    resume: bool = False,
    saving: Saving | None = None,
    loaded: tuple[Samples, Samples] | None = None,
) -> Job:
    """Check everything that can be wrong with the user's settings, and create or find the run folder.

    `resume` continues the run in `out`, if there is one. The folder stays locked until `train` has ended. `loaded` is
    the result of `load_samples` for another run on the same samples.
    """
    run = Run(Path(out))
    if config.deterministic:
        set_cublas_workspace()
    processes = distributed.start(config.device)
    config.check(config.batch_size // config.accumulate, processes.world_size)
    if config.decoder == "gpu":
        nvjpeg(processes.device)
    samples, heldout = loaded or load_samples(config)
    _check_fills_batch(config, samples, heldout)
    _check_heldout(config, heldout)
    if compiles(config, processes, config.epochs * len(samples)):
        start_compilers()
    if resume:
        distributed.on_rank_0(processes, check_unchanged, run, samples)
    check_objective(config, samples.input_shape, not (resume and run.has_checkpoint), processes.world_size)
    digest = samples.digest()
    if distributed.differs(digest):  # the processes would draw shares of different batches
        raise ValueError(f"the processes find different samples in {config.data}: every machine needs the same files")
    lock = distributed.on_rank_0(processes, run.begin, config, resume)
    return Job(config, run, resume, processes, samples, heldout, digest, lock, saving or Saving())


def _check_fills_batch(config: Config, samples: Samples, heldout: Samples) -> None:
    """ValueError if there are fewer samples than a batch has, maybe because others are held out."""
    count, batch = len(samples), config.batch_size
    if count >= batch:
        return
    if config.validation and config.limit is None:
        both = count + len(heldout)
        left = f"{count} of {both} samples are left after {len(heldout)} were held out"
        other = ", or a smaller `validation`" if both > batch else ""
        raise ValueError(f"{left}, and do not fill one batch of {batch}: choose a smaller `batch_size`{other}")
    raise ValueError(f"{count} samples do not fill one batch of {batch}: choose a smaller `batch_size`")


def _check_heldout(config: Config, heldout: Samples) -> None:
    """ValueError if too few samples are held out to be measured after an epoch."""
    if len(heldout) < FEWEST_MEASURED:
        more = "choose a larger `validation`" if config.validation else "add some, or hold some out by `validation`"
        count = f"{len(heldout)} held-out sample{'s' * (len(heldout) != 1)}"
        raise ValueError(f"{config.data} has {count}, but measuring needs at least {FEWEST_MEASURED}: {more}")


def decoded_pixels(config: Config) -> int | None:
    """The side at which pictures that are not prepared are decoded for views of this size: 256 for 224."""
    view = getattr(policy_for(config.policy, config.size), "size", None)
    return view and math.ceil(view * PIXELS_PER_PIXEL)


def load_samples(config: Config) -> tuple[Samples, Samples]:
    """(training samples, held-out samples): the latter from the test or val split, or `validation` of each class."""
    pixels = config.pixels or decoded_pixels(config)
    first = None if config.validation else config.limit
    cache = Path(config.cache) if config.cache else None
    samples = data.load(config.data, config.split, pixels=pixels, decoder=config.decoder, first=first, cache=cache)
    if config.decoder == "gpu" and not samples.streamed:
        raise ValueError(f"{config.data} is prepared, so a GPU has nothing to decode: leave out `decoder` gpu")
    if config.cache and not samples.streamed:
        raise ValueError(f"{config.data} is prepared, so there is nothing to cache: leave out `cache`")
    if config.validation:
        samples, heldout = samples.split(config.validation)
    else:
        heldout = data.load(config.data, heldout_split(config.data), pixels=pixels)
    return (samples if config.limit is None else samples.limit(config.limit)), heldout
