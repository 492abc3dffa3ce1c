"""Published weights of timm's models, from the model hub or its local cache."""

import contextlib
from pathlib import Path

from safetensors import SafetensorError
from torch import nn

from care.models.timm_models import check_timm_name, create_timm, in_one_line


def published_model(name: str, input_shape: tuple[int, ...] | None = None) -> nn.Module:
    """The model with its published weights, for images of shape `input_shape`, or of its own size.

    timm resamples weights that depend on the size, such as position embeddings.
    """
    from huggingface_hub.errors import HTTPError  # type: ignore[attr-defined]

    hub = name.partition("hf-hub:")[2] if ":" in name else check_published(name)
    try:
        _ask_hub(hub)
        return create_timm(name, input_shape, pretrained=True)
    except (OSError, ValueError, RuntimeError, HTTPError, SafetensorError) as error:
        raise ValueError(
            f"the weights of timm/{name} cannot be loaded: {in_one_line(error)}. Download them elsewhere "
            "and pass timm/NAME@FILE.safetensors, or copy the Hugging Face cache of a machine that has them and set "
            "HF_HOME to it."
        ) from error


def check_published(name: str) -> str:
    """The hub's name for the weights of a timm model; ValueError that lists the known weights for an unknown name."""
    import timm.models

    check_tag(name)
    if not timm.list_pretrained(f"{name.partition('.')[0]}.*"):
        raise ValueError(f"timm has no weights {name!r}; timm/{name}@random has random ones")
    return getattr(timm.models.get_pretrained_cfg(name), "hf_hub_id", None) or ""


def check_tag(name: str) -> None:
    """ValueError if timm has no such model, or no weights with this tag for it, `NAME.TAG`."""
    import timm

    check_timm_name(name)
    bare, _, tag = name.partition(".")
    tags = timm.list_pretrained(f"{bare}.*")
    if tag and name not in tags:
        others = f"choose one of {', '.join(tags)}" if tags else f"timm/{bare}@random has random ones"
        raise ValueError(f"timm has no weights {name!r}; {others}")


def _ask_hub(name: str) -> None:
    """Raise quickly if the hub does not answer and the cache has nothing: its client would retry for a minute."""
    from huggingface_hub import constants, get_hf_file_metadata, hf_hub_url
    from huggingface_hub.errors import EntryNotFoundError

    constants.HF_HUB_DISABLE_TELEMETRY = True
    repository, _, revision = name.partition("@")
    cached = Path(constants.HF_HUB_CACHE, f"models--{repository.replace('/', '--')}", "snapshots")
    if name and not any(cached.glob("*/*")):
        with contextlib.suppress(EntryNotFoundError):  # the hub has answered
            get_hf_file_metadata(hf_hub_url(repository, "config.json", revision=revision or None), timeout=5)
