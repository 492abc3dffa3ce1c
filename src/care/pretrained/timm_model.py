"""The models of timm, with published weights, with those of a file, or with random ones."""

import contextlib
import difflib
import json
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import nn

from care.models import small_stem
from care.pretrained.model import Channels, PretrainedModel, frozen_model, in_one_line


def timm_pretrained(name: str, channels: Channels | None) -> PretrainedModel:
    """The model `NAME`, `NAME@random` or `NAME@FILE.safetensors`."""
    from timm.data.config import resolve_model_data_config

    architecture, _, weights = name.partition("@")
    if ":" in architecture:  # the name of a hub, where @ is for a revision
        architecture, weights = name, ""
    with torch.random.fork_rng(devices=[]):  # the same weights always, and the global generator as it was
        torch.default_generator.manual_seed(0)
        model = _create(architecture, pretrained=not weights)
    config = resolve_model_data_config(model)
    label = f"{architecture}@{Path(weights).stem}" if weights else architecture
    small = weights not in ("", "random") and _fill(model, Path(weights))
    size = None if small else config["input_size"][-1]
    exported = _exported(Path(weights)) if weights not in ("", "random") else None
    usual, size = exported or ((config["mean"], config["std"]), size)
    return frozen_model(label, model, size, channels or usual)


def _exported(file: Path) -> tuple[Channels, int] | None:
    """((mean, standard deviation) of the images, their size), where `care export` wrote the weights."""
    with safe_open(str(file), "pt") as opened:
        about = opened.metadata() or {}
    if not {"mean", "std", "size"} <= about.keys():
        return None
    mean, std, size = (json.loads(about[name]) for name in ("mean", "std", "size"))
    return (mean, std), size


def _create(name: str, pretrained: bool) -> nn.Module:
    import timm
    from huggingface_hub.errors import HTTPError  # type: ignore[attr-defined]

    hub = name.partition("hf-hub:")[2] if ":" in name else _check_name(name, pretrained)
    if not pretrained:
        return timm.create_model(name, num_classes=0)
    try:
        _ask_hub(hub)
        return timm.create_model(name, pretrained=True, num_classes=0)
    except (OSError, ValueError, RuntimeError, HTTPError, SafetensorError) as error:
        raise ValueError(
            f"the weights of timm/{name} cannot be had: {in_one_line(error)}. Download them elsewhere "
            "and pass timm/NAME@FILE.safetensors, or copy the Hugging Face cache of a machine that has them and set "
            "HF_HOME to it."
        ) from error


def _check_name(name: str, pretrained: bool) -> str:
    """The hub's name for the weights of a model of timm; ValueError suggests names where there is no such model."""
    import timm.models

    bare, _, tag = name.partition(".")
    if not timm.is_model(bare):
        close = difflib.get_close_matches(bare, timm.list_models(), 3) or timm.list_models(f"*{bare}*")[:3]
        raise ValueError(f"timm has no model {bare!r}" + (f"; did you mean {' or '.join(close)}?" if close else ""))
    tags = timm.list_pretrained(f"{bare}.*")
    if (tag and name not in tags) or (pretrained and not tags):
        others = f"there are {', '.join(tags)}" if tags else f"timm/{bare}@random has random ones"
        raise ValueError(f"timm has no weights {name!r}; {others}")
    return getattr(timm.models.get_pretrained_cfg(name), "hf_hub_id", None) or ""


def _ask_hub(name: str) -> None:
    """Raise at once if the hub does not answer and nothing is in its cache: its client would try for a minute."""
    from huggingface_hub import constants, get_hf_file_metadata, hf_hub_url
    from huggingface_hub.errors import EntryNotFoundError

    constants.HF_HUB_DISABLE_TELEMETRY = True
    repository, _, revision = name.partition("@")
    cached = Path(constants.HF_HUB_CACHE, f"models--{repository.replace('/', '--')}", "snapshots")
    if name and not any(cached.glob("*/*")):
        with contextlib.suppress(EntryNotFoundError):  # the hub has answered
            get_hf_file_metadata(hf_hub_url(repository, "config.json", revision=revision or None), timeout=5)


def _fill(model: nn.Module, file: Path) -> bool:
    """Load all weights but the classifier's; returns whether the stem was made one for small images to fit them."""
    import timm.models

    if file.suffix != ".safetensors" or not file.is_file():
        raise ValueError(f"{file} is no .safetensors file: after the @ comes one with the weights, or random")
    try:
        state = timm.models.load_state_dict(str(file))
    except SafetensorError as error:
        raise ValueError(f"{file} is damaged: {in_one_line(error)}") from error
    names = model.pretrained_cfg.get("classifier") or ()  # type: ignore[operator, union-attr]
    classifiers = tuple(f"{name}." for name in ((names,) if isinstance(names, str) else names))
    state = {name: tensor for name, tensor in state.items() if not name.startswith(classifiers)}
    kernels = [every["conv1.weight"].shape[2:] for every in (state, model.state_dict()) if "conv1.weight" in every]
    small = kernels == [(3, 3), (7, 7)]
    if small:
        small_stem(model)
    given, wanted = ({name: [*x.shape] for name, x in every.items()} for every in (state, model.state_dict()))
    wrong = [f"{k} should be {v} and is {given.get(k, 'missing')}" for k, v in wanted.items() if given.get(k) != v]
    wrong += [f"{name} is not in the model" for name in given if name not in wanted]
    if wrong:
        raise ValueError(f"{file} does not fit the model, by {len(wrong)} weights: {wrong[0]}")
    model.load_state_dict(state)
    return small
