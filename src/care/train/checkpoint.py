"""Checkpoints and weights on disk, as safetensors and JSON: loading a file never runs code from it."""

import dataclasses
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from care.atomic_files import (
    BLANK,
    is_sealed,
    make_folder,
    remove_folder,
    remove_leftovers,
    seal,
    write_atomically,
    writing_atomically,
)
from care.train.state_tree import PLAIN

FORMAT = 1
NAME = re.compile(r"step-(\d{8,})(?:-(\d+))?")
TENSORS, STATE = "tensors.safetensors", "state.json"
DTYPES = {
    *(torch.float64, torch.float32, torch.float16, torch.bfloat16),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool),
}


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A loaded checkpoint, tensors on the CPU. `skipped` has a sentence about each newer, damaged checkpoint."""

    step: int
    tensors: dict[str, Tensor]
    state: dict[str, Any]
    path: Path
    skipped: tuple[str, ...] = ()


def save(
    folder: Path,
    step: int,
    tensors: Mapping[str, Tensor],
    state: Mapping[str, Any],
    keep: int = 2,
    keep_every: int | None = None,
) -> Path:
    """Write `folder/step-00001234`, then remove all but the newest `keep` intact checkpoints up to this step.

    Earlier checkpoints whose step is a multiple of `keep_every` stay for good. The tensors must not change during the
    write: pass a `snapshot` of tensors that will.

    The checkpoint holds `tensors.safetensors` and `state.json`, which has the checksums of both. It gets its name once
    all of it is on the disk. Only then are others removed: older checkpoints, damaged ones, and those of this or a
    later step, left over if training was resumed from an earlier step. If the write fails, this raises OSError and
    removes nothing. A step saved again is named `step-00001234-2`: the first stays until the second is complete.
    """
    if step < 0 or keep < 1:
        raise ValueError(f"a checkpoint needs a step ≥ 0 and keep ≥ 1, got step {step} and keep {keep}")
    _check_json(dict(state), "state")
    data = _encode(tensors)
    path = _free_path(folder, step)
    make_folder(folder)
    remove_leftovers(folder)
    with writing_atomically(path) as temporary:
        temporary.mkdir()
        (temporary / TENSORS).write_bytes(data)
        (temporary / STATE).write_bytes(_describe(step, data, state))
    _remove_others(path, keep, keep_every)
    return path


def snapshot(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Copies on the CPU, contiguous and without shared memory; TypeError for tensors that safetensors cannot hold."""
    for name, tensor in tensors.items():
        if tensor.layout != torch.strided or tensor.dtype not in DTYPES or name == "__metadata__":
            raise TypeError(f"a tensor called {name}, {tensor.dtype} and {tensor.layout}, cannot be saved")
    return {
        name: tensor.detach().to("cpu", memory_format=torch.contiguous_format, copy=True)
        for name, tensor in tensors.items()
    }


def load_latest(folder: Path) -> Checkpoint | None:
    """The newest intact checkpoint, None if there is none at all, ValueError if all are damaged."""
    skipped: list[str] = []
    for path in _newest_first(folder):
        try:
            return dataclasses.replace(load(path), skipped=tuple(skipped))
        except ValueError as error:
            skipped.append(str(error))
    if skipped:
        raise ValueError(
            f"all checkpoints in {folder} are damaged, start again in another folder: {'; '.join(skipped)}"
        )
    return None


def save_weights(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """Write a safetensors file atomically, with its checksum as `sha256` in the metadata. Any program can read it."""
    if "sha256" in metadata:
        raise ValueError("the metadata must not have the key sha256: the checksum of the file goes there")
    write_atomically(path, seal(_encode(tensors, {**metadata, "sha256": BLANK.decode()})))


def load_weights(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """(tensors on the CPU, metadata) of a file written by `save_weights`; ValueError if any byte has changed."""
    data = path.read_bytes()
    if not is_sealed(data):
        raise ValueError(f"{path} is damaged, or was not written by care: its checksum is missing or does not match")
    tensors = _decode(path, data)
    metadata = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])["__metadata__"]
    return tensors, {key: value for key, value in metadata.items() if key != "sha256"}


def load(path: Path) -> Checkpoint:
    """The checkpoint at `path`; ValueError that names the file if one is damaged."""
    text = _read(path / STATE)
    if not is_sealed(text):
        raise ValueError(f"{path / STATE} is damaged: its checksum does not match")
    record = _parse(path / STATE, text)
    data = _read(path / TENSORS)
    if len(data) != record["tensor_bytes"]:
        raise ValueError(f"{path / TENSORS} is damaged: {len(data)} bytes instead of {record['tensor_bytes']}")
    if sha256(data).hexdigest() != record["tensor_sha256"]:
        raise ValueError(f"{path / TENSORS} is damaged: its checksum does not match")
    return Checkpoint(record["step"], _decode(path / TENSORS, data), record["state"], path)


def _describe(step: int, data: bytes, state: Mapping[str, Any]) -> bytes:
    """The text of `state.json`. The checksum comes first, so that nothing in the state can be mistaken for it."""
    record = {
        "sha256": BLANK.decode(),
        "format": FORMAT,
        "step": step,
        "tensor_bytes": len(data),
        "tensor_sha256": sha256(data).hexdigest(),
        "state": dict(state),
    }
    return seal(json.dumps(record, separators=(",", ":")).encode())


def _parse(file: Path, text: bytes) -> dict[str, Any]:
    """The record in a sealed `state.json`; ValueError for another format, or another step than its folder's."""
    try:
        record: dict[str, Any] = json.loads(text)
        form, step, state = record["format"], record["step"], record["state"]
        record["tensor_bytes"], record["tensor_sha256"]
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise ValueError(f"{file} is not the state of a checkpoint: {error!r}") from error
    if form != FORMAT:
        raise ValueError(f"{file} has format {form}; this version of care reads format {FORMAT}")
    if step != _order(file.parent)[0] or not isinstance(state, dict):
        raise ValueError(f"{file} belongs to step {step}: its folder was renamed or its file replaced")
    return record


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise ValueError(f"{file} cannot be read: {error.strerror}") from error


def _encode(tensors: Mapping[str, Tensor], metadata: dict[str, str] | None = None) -> bytes:
    """The bytes of a safetensors file; `snapshot` removes strides and shared memory, which the format cannot hold."""
    return safetensors.torch.save(snapshot(tensors), metadata)


def _decode(file: Path, data: bytes) -> dict[str, Tensor]:
    """The tensors of a safetensors file whose checksum matches. Fails only on a forged file."""
    try:
        return safetensors.torch.load(data)
    except (SafetensorError, LookupError, ValueError, AssertionError) as error:
        raise ValueError(f"{file} is not a safetensors file: {error}") from error


def _check_json(value: Any, path: str) -> None:
    """TypeError for values that JSON would change: tuples become lists, int keys become strings."""
    if isinstance(value, dict) and all(type(key) is str for key in value):
        for key, item in value.items():
            _check_json(item, f"{path}/{key}")
    elif type(value) is list:
        for i, item in enumerate(value):
            _check_json(item, f"{path}/{i}")
    elif type(value) not in PLAIN:
        raise TypeError(f"{path} ({type(value).__name__}) would not come back from JSON as it is: use flatten_state")


def _order(path: Path) -> tuple[int, int]:
    """The sort key of a checkpoint, (step, number of saves of this step); (-1, 0) for any other file."""
    match = NAME.fullmatch(path.name)
    return (int(match[1]), int(match[2] or 1)) if match else (-1, 0)


def _newest_first(folder: Path) -> list[Path]:
    paths = [path for path in folder.iterdir() if NAME.fullmatch(path.name)] if folder.exists() else []
    return sorted(paths, key=_order, reverse=True)


def _free_path(folder: Path, step: int) -> Path:
    """The path for a checkpoint of this step: `step-00001234`, or with the next free number appended."""
    times = [again for other, again in map(_order, _newest_first(folder)) if other == step]
    return folder / (f"step-{step:08d}-{max(times) + 1}" if times else f"step-{step:08d}")


def _remove_others(saved: Path, keep: int, keep_every: int | None) -> None:
    """Remove every checkpoint but the one just saved, the newest keep − 1 intact ones of earlier steps, and those of
    earlier steps that are a multiple of `keep_every`."""
    left, last = keep - 1, _order(saved)[0]
    for path in _newest_first(saved.parent):
        step, _ = _order(path)
        for_good = keep_every is not None and step % keep_every == 0 and step < last
        if path == saved or (for_good and not left):
            continue
        if left and step < last and _is_intact(path):
            left -= 1
        elif not for_good:
            remove_folder(path)


def _is_intact(path: Path) -> bool:
    try:
        load(path)
    except ValueError:
        return False
    return True
