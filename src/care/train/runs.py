"""The run folder: where a run is written, and how it is read back.

| file                | what it holds                                                       |
|---------------------|---------------------------------------------------------------------|
| `config.toml`       | the whole configuration: `care train --config` runs it again        |
| `log.jsonl`         | one line per epoch, the same for the same configuration             |
| `speed.jsonl`       | one line per epoch: seconds and samples per second                  |
| `checkpoints/`      | what `--resume` goes on from                                        |
| `model.safetensors` | the final encoder and head                                          |
| `curves.png`        | the log as a picture                                                |
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from care.durable import write_atomically
from care.methods import build_encoder, policy_for
from care.models import Encoder
from care.train.checkpoint import load_weights, save_weights
from care.train.config import Config


@dataclass(frozen=True)
class Run:
    """A run folder."""

    folder: Path

    @property
    def checkpoints(self) -> Path:
        """Where checkpoints are."""
        return self.folder / "checkpoints"

    @property
    def weights(self) -> Path:
        """The final encoder and head."""
        return self.folder / "model.safetensors"

    def begin(self, config: Config, resume: bool) -> None:
        """Make the folder, or find it as it should be; ValueError says what is in the way."""
        file = self.folder / "config.toml"
        if file.exists() and not resume:
            raise ValueError(f"{self.folder} already holds a run: choose another --out, or go on with it by --resume")
        if file.exists():
            different = config.differences(self.config())
            if different:
                raise ValueError(f"{self.folder} was started with another configuration: {'; '.join(different)}")
            return
        if resume:
            raise ValueError(f"there is no run to resume in {self.folder}")
        self.folder.mkdir(parents=True, exist_ok=True)
        write_atomically(file, config.to_toml().encode())

    def config(self) -> Config:
        """The configuration it was started with."""
        file = self.folder / "config.toml"
        if not file.exists():
            raise ValueError(f"{self.folder} holds no run: there is no config.toml in it")
        return Config.from_toml(file.read_text(), str(file))

    def source(self) -> tuple[int, ...]:
        """The shape of a view that the trained encoder takes."""
        return tuple(json.loads(load_weights(self.weights)[1]["source"]))

    def log(self) -> list[dict[str, Any]]:
        """The records of all epochs so far."""
        file = self.folder / "log.jsonl"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def write_log(self, records: list[dict[str, Any]]) -> None:
        """Replace the log: an interrupted line cannot happen."""
        write_atomically(self.folder / "log.jsonl", _lines(records))

    def add_speed(self, record: dict[str, Any]) -> None:
        """Note how long an epoch took. Apart from the log, which is the same for every machine."""
        with (self.folder / "speed.jsonl").open("ab") as file:
            file.write(_lines([record]))

    def save_encoder(self, encoder: Encoder, config: Config, source: tuple[int, ...]) -> None:
        """Write the final weights, with what is needed to build the encoder again."""
        metadata = {"format": "care encoder 1", "config": config.to_toml(), "source": json.dumps(source)}
        save_weights(self.weights, encoder.state_dict(), metadata)


def load(run: str | Path) -> Encoder:
    """The trained encoder of a run folder, or of a `model.safetensors`, frozen: `care.load("runs/mine")(images)`."""
    path = Path(run)
    file = Run(path).weights if path.is_dir() else path
    if not file.exists():
        raise ValueError(f"{file} does not exist: has the run finished?")
    tensors, metadata = load_weights(file)
    config = Config.from_toml(metadata["config"], str(file))
    channels = {"mean": tuple(tensors["mean"].tolist()), "std": tuple(tensors["std"].tolist())}
    encoder = build_encoder(config, tuple(json.loads(metadata["source"])), **channels)
    encoder.load_state_dict(tensors)
    return encoder.eval().requires_grad_(False)


def view_source(config: Config, source: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of a view: the policy's size for images, the number of points for clouds."""
    policy = policy_for(config.policy, config.size)
    return (policy.size, policy.size) if hasattr(policy, "size") else source


def _lines(records: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(record) + "\n" for record in records).encode()
