"""Measurements on disk: a record of numbers as JSON, and the arrays behind them, both with checksums."""

import json
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import safetensors.torch
from torch import Tensor

from care.atomic_files import BLANK, is_sealed, make_folder, seal, write_atomically

SUM = "arrays_sha256"


def save_record(
    folder: Path, record_name: str, arrays_name: str, record: Mapping[str, Any], arrays: Mapping[str, Tensor]
) -> None:
    """Write the record and the arrays into `folder`; the first has the checksums of both."""
    make_folder(folder)
    data = safetensors.torch.save({name: tensor.cpu().contiguous() for name, tensor in arrays.items()})
    sealed = {"sha256": BLANK.decode(), SUM: sha256(data).hexdigest(), **record}
    text = json.dumps(sealed, indent=1, separators=(",", ":"), allow_nan=False)
    write_atomically(folder / arrays_name, data)
    write_atomically(folder / record_name, seal(text.encode()))


def load_record(
    folder: Path, record_name: str, arrays_name: str, what: str, command: str
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """What `save_record` wrote; ValueError if it is not there or any byte of it has changed.

    The error names `what` is missing, such as "evaluation", and the `command` that makes it.
    """
    try:
        text, data = ((folder / name).read_bytes() for name in (record_name, arrays_name))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ValueError(
            f"{folder} holds no {what}: {Path(error.filename).name} is missing, {command} makes it"
        ) from error
    again = f"run {command} again"
    if not is_sealed(text):
        raise ValueError(f"{folder / record_name} is damaged, or was written by another version of care: {again}")
    record = json.loads(text)
    if record.pop("sha256") and record.pop(SUM) != sha256(data).hexdigest():
        raise ValueError(f"{folder / arrays_name} is damaged: {again}")
    return record, safetensors.torch.load(data)
