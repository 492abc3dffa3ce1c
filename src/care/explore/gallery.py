"""Questions about an image and a change, answered by every model: what is near f(a(x)), and near what is predicted."""

import base64
import dataclasses
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int, UInt8
from PIL import Image
from torch import Tensor

from care.augment import apply
from care.evaluate.retrieval.hue import Hues, hue_distance
from care.explore.bank import Bank
from care.tables import visible

LARGEST_SHOWN = 256  # pixels; what is larger is reduced, since every move of a slider sends a picture


@dataclass(frozen=True)
class Neighbor:
    """An image near a point: its number, its cosine with the point, its class, and its hue beside that of a(x).

    `kind` is None without a class, `same` without two classes to compare, `hue_distance` where one of both is gray.
    """

    image: int
    cosine: float
    kind: str | None
    same: bool | None
    hue_distance: float | None


@dataclass(frozen=True)
class Around:
    """A point on the sphere: its cosine with f(a(x)), its k nearest images, and how many of these f(a(x)) has, too.

    `hue_distance` is the mean of the neighbors' with weight strength(a(x)) · strength(neighbor), as in retrieval;
    `same` counts those of the query's class.
    """

    cosine: float
    neighbors: tuple[Neighbor, ...]
    shared: int
    same: int | None
    hue_distance: float | None


@dataclass(frozen=True)
class Seen:
    """What one model sees: around f(x), around the prediction R(θ) f(x) if there is one, and around f(a(x))."""

    name: str
    still: Around
    steered: Around | None
    moved: Around


@dataclass(frozen=True, eq=False)
class Answer:
    """The changed image to look at, in words too, and what every model sees."""

    image: int
    kind: str | None
    what: str
    view: UInt8[Tensor, "3 side side"]
    models: tuple[Seen, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain values; the view as a `data:` address of a PNG."""
        view = "data:image/png;base64," + base64.b64encode(png(self.view)).decode()
        shown = {"image": self.image, "kind": self.kind, "what": self.what, "view": view}
        return shown | {"models": [dataclasses.asdict(seen) for seen in self.models]}


class Gallery:
    """Images and the banks of the models that look at them; the k nearest are shown, never the image itself."""

    def __init__(self, banks: Sequence[Bank], k: int = 8) -> None:
        first = banks[0]
        for other in banks[1:]:
            if other.observer.samples is not first.observer.samples:
                raise ValueError(f"{first.name} and {other.name} were given different images: embed the same ones")
            if other.policy.center != first.policy.center:
                raise ValueError(
                    f"{first.name} looks at the central {first.policy.center:g} of a picture and {other.name} at "
                    f"{other.policy.center:g}: explore one after the other"
                )
        if not 1 <= k < len(first.F):
            raise ValueError(f"k must be between 1 and the {len(first.F) - 1} other images there are, got {k}")
        self.banks, self.k, self.samples = tuple(banks), k, first.observer.samples
        self._labels = self.samples.labels.tolist()
        self._side = min(LARGEST_SHOWN, *first.source)

    def __len__(self) -> int:
        return len(self.samples)

    def kind(self, image: int) -> str | None:
        """The class of an image."""
        label = self._labels[image]
        return visible(self.samples.classes[label]) if label >= 0 else None

    def view(self, image: int, changes: Mapping[str, float]) -> UInt8[Tensor, "3 side side"]:
        """The image under a change, at its own resolution: a model may get it at another."""
        a = dataclasses.replace(self.banks[0].augmentation(changes), size=self._side)
        pixels = apply(self.samples.inputs[image : image + 1].cpu(), a)[0]
        return (255 * pixels).round().clamp(0, 255).to(torch.uint8)

    def answer(self, image: int, changes: Mapping[str, float]) -> Answer:
        """What every model sees of an image under a change; ValueError if there is no such image or change."""
        if not 0 <= image < len(self):
            raise ValueError(f"there are images 0 to {len(self) - 1}, got {image}")
        what = self.banks[0].augmentation(changes).describe(0) if changes else "identity"
        models = tuple(self._seen(bank, image, changes) for bank in self.banks)
        return Answer(image, self.kind(image), what, self.view(image, changes), models)

    def _seen(self, bank: Bank, image: int, changes: Mapping[str, float]) -> Seen:
        """All points are on the sphere, so cosines are products, and the nearest are those with the largest."""
        points, hue = bank.points(image, bank.augmentation(changes))
        Z = torch.stack(list(points.values()))
        cosine = Z @ bank.F.mT
        cosine[:, image] = -torch.inf
        nearest = cosine.topk(self.k)
        around = [
            self._around(bank, image, hue, *found, nearest.indices[-1])
            for found in zip((Z @ Z[-1]).tolist(), nearest.values, nearest.indices, strict=True)
        ]
        found = dict(zip(points, around, strict=True))
        return Seen(bank.name, found["still"], found.get("steered"), found["moved"])

    def _around(
        self,
        bank: Bank,
        image: int,
        hue: Hues,
        cosine: float,
        cosines: Float[Tensor, " k"],
        rows: Int[Tensor, " k"],
        wanted: Int[Tensor, " k"],
    ) -> Around:
        weight = hue.strength * bank.hues.strength[rows]
        distance = torch.where(weight > 0, hue_distance(hue.angle, bank.hues.angle[rows]), torch.nan)
        columns = (column.tolist() for column in (rows, cosines, distance))
        found = tuple(self._neighbor(image, *row) for row in zip(*columns, strict=True))
        same = [neighbor.same for neighbor in found if neighbor.same is not None]
        return Around(
            cosine=cosine,
            neighbors=found,
            shared=int(torch.isin(rows, wanted).sum()),
            same=sum(same) if same else None,
            hue_distance=_finite(float((weight * distance).nansum() / weight.sum())),
        )

    def _neighbor(self, query: int, image: int, cosine: float, distance: float) -> Neighbor:
        label, wanted = self._labels[image], self._labels[query]
        same = label == wanted if label >= 0 and wanted >= 0 else None
        return Neighbor(image, cosine, self.kind(image), same, _finite(distance))


def png(image: UInt8[Tensor, "3 h w"]) -> bytes:
    """The picture as a PNG file, packed quickly rather than tightly: it goes no further than this machine."""
    file = io.BytesIO()
    Image.fromarray(image.permute(1, 2, 0).contiguous().numpy()).save(file, "PNG", compress_level=1)
    return file.getvalue()


def _finite(value: float) -> float | None:
    return value if value == value else None
