"""The run folder: where a run is written, and its log read back.

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

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from care.atomic_files import Lock, append_lines, make_folder, remove_leftovers, write_atomically
from care.models import Encoder, stem_of
from care.objective import policy_for
from care.train.checkpoint import save_weights
from care.train.config import Config

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
            raise ValueError(f"another run is writing to {self.folder}: wait for it, or choose another `out`") from None
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
            raise ValueError(f"{self.folder} already holds a run: choose another `out`, or continue it with `resume`")
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
        self, encoder: Encoder, config: Config, input_shape: tuple[int, ...], exported: dict[str, Tensor] | None = None
    ) -> None:
        """Write the final weights, the metadata to rebuild the encoder, and the tensors the equivariance exports."""
        metadata = {"format": "care encoder 2", "config": config.to_toml(), "source": json.dumps(input_shape)}
        metadata["stem"] = stem_of(encoder.backbone)  # explicit, in case the meaning of `auto` changes
        beside = {EQUIVARIANCE + name: tensor.contiguous() for name, tensor in (exported or {}).items()}
        save_weights(self.weights, encoder.state_dict() | beside, metadata)


def view_shape(config: Config, input_shape: tuple[int, ...]) -> tuple[int, ...]:
    """The input shape of a finished encoder: the policy's size for images, the number of points for clouds."""
    policy = policy_for(config.policy, config.size)
    return (policy.size, policy.size) if hasattr(policy, "size") else input_shape


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
