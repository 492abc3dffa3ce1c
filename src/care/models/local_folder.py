"""A folder in the form of the Hugging Face hub, such as `care export --to huggingface` writes."""

import json
from pathlib import Path
from typing import Any


def is_timm_folder(path: Path) -> bool:
    """Whether `path` is such a folder: it has a config.json, and a run has a config.toml."""
    return (path / "config.json").is_file() and not (path / "config.toml").exists()


def timm_config(path: Path) -> dict[str, Any]:
    """The config.json of the folder; ValueError if it does not name a model of timm."""
    file = path / "config.json"
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{file} is damaged: {error}") from error
    if not isinstance(config, dict) or not isinstance(config.get("architecture"), str):
        raise ValueError(f'{file} names no model of timm: only such folders are read, with "architecture" in it')
    return config
