"""The answer for one picture and one augmentation: the nearest neighbors of f(x), R(θ) f(x) and f(a(x))."""

import base64
import dataclasses
import io
from dataclasses import dataclass
from typing import Any

from jaxtyping import UInt8
from PIL import Image
from torch import Tensor


@dataclass(frozen=True)
class Neighbor:
    """A nearest neighbor of a point: its number, its cosine with the point, its class, and its hue distance to a(x).

    `kind` is its class, None without one. `same` says whether that is the query's class; it is None if either has no
    class. `hue_distance` is None if one of the two images is gray.
    """

    image: int
    cosine: float
    kind: str | None
    same: bool | None
    hue_distance: float | None


@dataclass(frozen=True)
class Neighborhood:
    """A point on the sphere: its cosine with f(a(x)), its k nearest `neighbors`, and how many f(a(x)) shares with it.

    `hue_distance` is the mean over neighbors with weight strength(a(x)) · strength(neighbor), as in retrieval; `same`
    counts the neighbors of the query's class.
    """

    cosine: float
    neighbors: tuple[Neighbor, ...]
    shared: int
    same: int | None
    hue_distance: float | None


@dataclass(frozen=True)
class ModelAnswer:
    """One model's neighborhoods of f(x), of R(θ) f(x) if it has a learned rotation, and of f(a(x)).

    `caveats` say in which respects R(θ) was not fitted to such an augmentation.
    """

    name: str
    clean: Neighborhood
    learned_rotation: Neighborhood | None
    augmented: Neighborhood
    caveats: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Answer:
    """The augmented picture, `what` was done to it in words, and the answers of the models.

    `image` and `kind` are its number and its class, None for a photo.
    """

    image: int | None
    kind: str | None
    what: str
    view: UInt8[Tensor, "3 side side"]
    models: tuple[ModelAnswer, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain values; the view as a `data:` address of a PNG."""
        shown = {"image": self.image, "kind": self.kind, "what": self.what, "view": data_address(self.view)}
        return shown | {"models": [dataclasses.asdict(model) for model in self.models]}


def png(image: UInt8[Tensor, "3 h w"]) -> bytes:
    """The picture as a PNG file, compressed fast rather than well: it does not leave this machine."""
    file = io.BytesIO()
    Image.fromarray(image.permute(1, 2, 0).contiguous().numpy()).save(file, "PNG", compress_level=1)
    return file.getvalue()


def data_address(image: UInt8[Tensor, "3 h w"]) -> str:
    """The picture as a `data:` address."""
    return "data:image/png;base64," + base64.b64encode(png(image)).decode()
