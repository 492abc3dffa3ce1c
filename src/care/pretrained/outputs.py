"""In which of its outputs a model is steered, and asked for neighbors."""

from collections.abc import Iterable, Mapping

import torch
from jaxtyping import Float
from torch import Tensor

from care.evaluate.observer import Embed
from care.geometry import Euclidean

WHOLE, TURNED, CONTRAST = "whole", "head", "contrast"


def steerable(outputs: Iterable[str]) -> tuple[str, ...]:
    """The outputs to choose from, first the one to take if nobody chooses: what the losses were on, all of it."""
    found = tuple(outputs)
    return (WHOLE, *found) if CONTRAST in found else found


def only(embed: Embed, output: str) -> Embed:
    """The model with this output alone."""

    def embed_only(inputs: Tensor) -> Mapping[str, Tensor]:
        found = embed(inputs)
        return {output: whole(found[CONTRAST], found[TURNED]) if output == WHOLE else found[output]}

    return embed_only


def whole(c: Float[Tensor, "n p"], r: Float[Tensor, "n t"]) -> Float[Tensor, "n p+t"]:
    """(c/‖c‖, r/‖r‖) / √2: both parts of an embedding, on one sphere, where both count alike.

    What turns r and leaves c where it is, is a rotation of the whole.
    """
    sphere = Euclidean()
    return torch.cat([sphere.embed(c), sphere.embed(r)], dim=1) / 2**0.5
