"""The run folder: where a run is written, and how it is read back.

| file                | what it holds                                                       |
|---------------------|---------------------------------------------------------------------|
| `config.toml`       | the whole configuration: `care train --config` runs it again        |
| `log.jsonl`         | one line per epoch, the same for the same configuration             |
| `speed.jsonl`       | one line per epoch: seconds and samples per second                  |
| `steps.jsonl`       | one line every few steps: means over them, of one process           |
| `checkpoints/`      | the states that `--resume` continues from                           |
| `model.safetensors` | the final encoder and head                                          |
| `curves.png`        | the log as a picture                                                |
| `.lock`             | held while a process trains                                         |
"""

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from jaxtyping import Float
from torch import Tensor, nn

from care.atomic_files import Lock, append_lines, make_folder, remove_leftovers, write_atomically
from care.models import Encoder, stem_of, stem_of_weights
from care.objective import build_encoder, policy_for
from care.objective.registry import find
from care.train.checkpoint import STATE, load_weights, save_weights
from care.train.checkpoint import load as load_checkpoint
from care.train.config import Config
from care.train.state_tree import unflatten_state

M = TypeVar("M", bound=nn.Module)

EQUIVARIANCE = "equivariance."  # prefix of the names of tensors saved beside the weights of the encoder


@dataclass(frozen=True)
class Run:
    """A run folder."""

    folder: Path

    @property
    def checkpoints(self) -> Path:
        """The folder of the checkpoints."""
        return self.folder / "checkpoints"

    @property
    def has_checkpoint(self) -> bool:
        """Whether there is a checkpoint to resume from."""
        return any(self.checkpoints.glob("step-*"))

    @property
    def weights(self) -> Path:
        """The file of the final encoder and head."""
        return self.folder / "model.safetensors"

    def begin(self, config: Config, resume: bool) -> Lock:
        """Create the folder or check that it can be used, and lock it; ValueError that says why it cannot be used."""
        make_folder(self.folder)
        try:
            lock = Lock(self.folder / ".lock")
        except BlockingIOError:
            raise ValueError(f"another run is writing to {self.folder}: wait for it, or choose another --out") from None
        try:
            self._check(config, resume)
            remove_leftovers(self.folder)
            remove_leftovers(self.checkpoints)
            # Written even if it exists already: if this fails, no file could be written, and it is best known now.
            write_atomically(self.folder / "config.toml", config.to_toml().encode())
        except BaseException:
            lock.release()
            raise
        return lock

    def _check(self, config: Config, resume: bool) -> None:
        """ValueError if there is a run, unless it is resumed with its configuration or an allowed change of it."""
        if not (self.folder / "config.toml").exists():
            return
        if not resume:
            raise ValueError(f"{self.folder} already holds a run: choose another --out, or continue it with --resume")
        if different := config.obstacles(self.config()):
            raise ValueError(f"{self.folder} was started with another configuration: {'; '.join(different)}")

    def config(self) -> Config:
        """The configuration that the run was started with."""
        file = self.folder / "config.toml"
        if not file.exists():
            raise ValueError(f"{self.folder} holds no run: there is no config.toml in it")
        return Config.read(file)

    def log(self) -> list[dict[str, Any]]:
        """The records of all epochs so far; ValueError that names the line if one is damaged."""
        file = self.folder / "log.jsonl"
        lines = file.read_bytes().splitlines() if file.exists() else []
        return [_record(line, f"line {number} of {file}") for number, line in enumerate(lines, start=1)]

    def write_log(self, records: list[dict[str, Any]]) -> None:
        """Replace the log as a whole, so that no line can be cut off."""
        write_atomically(self.folder / "log.jsonl", _lines(records))

    def add_speed(self, record: dict[str, Any]) -> None:
        """Record how long an epoch took, in a file of its own: the log does not depend on the machine."""
        file = self.folder / "speed.jsonl"
        write_atomically(file, (file.read_bytes() if file.exists() else b"") + _lines([record]))

    def steps(self) -> list[dict[str, Any]]:
        """The records of `steps.jsonl` so far, without a last line that was cut off."""
        file = self.folder / "steps.jsonl"
        lines = file.read_bytes().splitlines(keepends=True) if file.exists() else []
        whole = [line for line in lines if line.endswith(b"\n")]
        return [_record(line, f"line {number} of {file}") for number, line in enumerate(whole, start=1)]

    def add_step(self, record: dict[str, Any]) -> None:
        """Record the means over some steps."""
        append_lines(self.folder / "steps.jsonl", _lines([record]))

    def drop_steps(self, first: int) -> None:
        """Remove the records from step `first` on, which will be computed again."""
        if (self.folder / "steps.jsonl").exists():
            kept = [record for record in self.steps() if record["step"] < first]
            write_atomically(self.folder / "steps.jsonl", _lines(kept))

    def save_encoder(
        self, encoder: Encoder, config: Config, source: tuple[int, ...], exported: dict[str, Tensor] | None = None
    ) -> None:
        """Write the final weights, the metadata to rebuild the encoder, and the tensors the equivariance exports."""
        metadata = {"format": "care encoder 2", "config": config.to_toml(), "source": json.dumps(source)}
        metadata["stem"] = stem_of(encoder.backbone)  # explicit, in case the meaning of `auto` changes
        beside = {EQUIVARIANCE + name: tensor.contiguous() for name, tensor in (exported or {}).items()}
        save_weights(self.weights, encoder.state_dict() | beside, metadata)


@dataclass(frozen=True, eq=False)
class Trained:
    """The content of `model.safetensors`: the frozen encoder, its configuration, and the shape of its input views.

    `exported` holds the tensors that the equivariance saved beside it.
    """

    encoder: Encoder
    config: Config
    source: tuple[int, ...]
    exported: dict[str, Tensor] = field(default_factory=dict)

    @property
    def generators(self) -> Float[Tensor, "k m m"] | None:
        """A_k of R(θ) on the first m coordinates of the embedding, if they were trained with the encoder."""
        return self.exported.get("generators")


def load(run: str | Path) -> Encoder:
    """The trained encoder of a run folder, or of a `model.safetensors`, frozen: `care.load("runs/mine")(images)`."""
    return load_trained(Path(run)).encoder


def is_checkpoint(path: Path) -> bool:
    """Whether this is the folder of a checkpoint."""
    return (path / STATE).exists()


def run_name(path: Path) -> str:
    """The name of a run folder, of its checkpoint (mine-step-00000500), or of the run that a file of weights is in."""
    path = path.resolve()
    if is_checkpoint(path):
        return f"{path.parent.parent.name}-{path.name}"
    return path.name if path.is_dir() else path.parent.name


def load_trained(path: Path) -> Trained:
    """Load a run folder, a `model.safetensors`, or a checkpoint.

    The configuration is the one saved with the weights, not that of `config.toml`, which may have been edited.
    """
    if is_checkpoint(path):
        return _of_checkpoint(path)
    file = Run(path).weights if path.is_dir() else path
    if not file.exists():
        folder, name = file.parent, Run(path).weights.name
        if file.name == name and folder.is_dir() and not (folder / "config.toml").exists():
            raise ValueError(f"{folder} is not the folder of a run")
        raise ValueError(f"{file} does not exist: has the run finished?")
    tensors, metadata = load_weights(file)
    if missing := [name for name in ("config", "source") if name not in metadata]:
        raise ValueError(f"{file} holds no encoder of care: its metadata lacks {' and '.join(missing)}")
    config = Config.from_toml(metadata["config"], str(file), unchecked=True)
    source = tuple(json.loads(metadata["source"]))
    beside = [name for name in tensors if name.startswith(EQUIVARIANCE)]
    exported = {name.removeprefix(EQUIVARIANCE): tensors.pop(name) for name in beside}
    channels = {name: tuple(tensors[name].tolist()) for name in ("mean", "std") if name in tensors}
    config = _with_stem_of(config, tensors, metadata)
    return Trained(_filled(build_encoder(config, source, **channels), tensors, file), config, source, exported)


def _with_stem_of(config: Config, tensors: dict[str, Tensor], about: Mapping[str, str]) -> Config:
    """The configuration with the stem of the saved weights, which may differ from what `auto` would choose today."""
    stem = stem_of_weights(_below("backbone.", tensors), about)
    return dataclasses.replace(config, stem=stem)  # type: ignore[arg-type]


def _of_checkpoint(folder: Path) -> Trained:
    """The encoder of a checkpoint: its moving average, if there is one."""
    saved = load_checkpoint(folder)
    config = Config.from_toml(saved.state["config"], str(folder), unchecked=True)
    parts, source = unflatten_state(saved.tensors, saved.state["rest"]), tuple(saved.state["source"])
    kept: dict[str, Tensor] = parts["ema"] if parts["ema"] is not None else parts["objective"]
    encoder = _filled(build_encoder(config, source), _below("encoder.", kept), folder)
    beside, exported = _below(EQUIVARIANCE, kept), {}
    equivariance = find("equivariance", config.equivariance.name) if beside else None
    if equivariance is not None:
        context = config.context(config.batch_size // config.accumulate)
        module = equivariance(config.equivariance.settings, encoder, context)
        exported = _filled(module, beside, folder).exported()
    return Trained(encoder, config, source, exported)


def _filled(module: M, tensors: dict[str, Tensor], where: Path) -> M:
    """The module with these weights, frozen."""
    try:
        module.load_state_dict(tensors)
    except RuntimeError as error:
        raise ValueError(f"{where} does not fit its own configuration: {' '.join(str(error).split())}") from error
    return module.eval().requires_grad_(False)


def _below(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def view_source(config: Config, source: tuple[int, ...]) -> tuple[int, ...]:
    """The input shape of a finished encoder: the policy's size for images, the number of points for clouds."""
    policy = policy_for(config.policy, config.size)
    return (policy.size, policy.size) if hasattr(policy, "size") else source


def _record(line: bytes, where: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{where} is damaged: {error}; care train --resume writes it again") from error
    if not isinstance(record, dict) or not all(v is None or type(v) in (int, float) for v in record.values()):
        raise ValueError(f"{where} is damaged: it is not a record of numbers; care train --resume writes it again")
    return record


def _lines(records: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(record) + "\n" for record in records).encode()
