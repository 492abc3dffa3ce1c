"""The nearest neighbors of f(x), R(θ) f(x) and f(a(x)), by every model, for one image and one augmentation."""

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

LARGEST_SHOWN = 256  # pixels; larger pictures are reduced, because every move of a slider sends one


@dataclass(frozen=True)
class Neighbor:
    """A nearest neighbor of a point: its number, its cosine with the point, its class, and its hue distance to a(x).

    `kind` is its class, None without one. `same` says whether it is that of the query, None without two classes to
    compare. `hue_distance` is None where one of the two images is gray.
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
    """By one model: the neighborhoods of f(x), of R(θ) f(x) if there is a learned rotation, and of f(a(x))."""

    name: str
    clean: Neighborhood
    learned_rotation: Neighborhood | None
    augmented: Neighborhood


@dataclass(frozen=True, eq=False)
class Answer:
    """The augmented image as a picture and in words, and the answers of the models."""

    image: int
    kind: str | None
    what: str
    view: UInt8[Tensor, "3 side side"]
    models: tuple[ModelAnswer, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain values; the view as a `data:` address of a PNG."""
        view = "data:image/png;base64," + base64.b64encode(png(self.view)).decode()
        shown = {"image": self.image, "kind": self.kind, "what": self.what, "view": view}
        return shown | {"models": [dataclasses.asdict(model) for model in self.models]}


class Gallery:
    """Images and their embeddings by several models. Neighborhoods hold the k nearest images without the query.

    Every model gets the un-augmented view of its own policy, or what a change makes of it. The picture that is shown is
    that of the model that sees most of it.
    """

    def __init__(self, banks: Sequence[Bank], k: int = 8) -> None:
        first = banks[0]
        for other in banks[1:]:
            if other.observer.samples is not first.observer.samples:
                raise ValueError(f"{first.name} and {other.name} were given different images: embed the same ones")
        check_k(k, len(first.F))
        self.shown = max(banks, key=lambda bank: bank.policy.center)
        self.banks, self.k, self.samples = tuple(banks), k, first.observer.samples
        self._labels = self.samples.labels.tolist()
        self._side = min(LARGEST_SHOWN, *first.source)

    def __len__(self) -> int:
        return len(self.samples)

    def kind(self, image: int) -> str | None:
        """The class of an image."""
        label = self._labels[image]
        return visible(self.samples.classes[label]) if label >= 0 else None

    def note(self, bank: Bank) -> str:
        """What the reader should know of a model: also that it sees less of the picture than is shown."""
        center = bank.policy.center
        less = f"This model sees the central {center:g} of a picture." if center < self.shown.policy.center else ""
        return " ".join(sentence for sentence in (bank.note, less) if sentence)

    def view(self, image: int, changes: Mapping[str, float]) -> UInt8[Tensor, "3 side side"]:
        """The augmented image at its own resolution; a model may get it at another."""
        a = dataclasses.replace(self.shown.augmentation(changes), size=self._side)
        pixels = apply(self.samples.take(torch.tensor([image])).inputs.cpu(), a)[0]
        return (255 * pixels).round().clamp(0, 255).to(torch.uint8)

    def answer(self, image: int, changes: Mapping[str, float]) -> Answer:
        """The answers of all models for an image and changes of it; ValueError if there is no such image or change."""
        if not 0 <= image < len(self):
            raise ValueError(f"there are images 0 to {len(self) - 1}, got {image}")
        what = self.shown.augmentation(changes).describe(0) if changes else "identity"
        models = tuple(self._model_answer(bank, image, changes) for bank in self.banks)
        return Answer(image, self.kind(image), what, self.view(image, changes), models)

    def _model_answer(self, bank: Bank, image: int, changes: Mapping[str, float]) -> ModelAnswer:
        """All points are on the unit sphere, so cosines are inner products."""
        points, hue = bank.points(image, bank.augmentation(changes))
        Z = torch.stack(list(points.values()))
        cosine = Z @ bank.F.mT
        cosine[:, image] = -torch.inf
        nearest = cosine.topk(self.k)
        neighborhoods = [
            self._neighborhood(bank, image, hue, *found, nearest.indices[-1])
            for found in zip((Z @ Z[-1]).tolist(), nearest.values, nearest.indices, strict=True)
        ]
        by_point = dict(zip(points, neighborhoods, strict=True))
        return ModelAnswer(bank.name, by_point["clean"], by_point.get("learned_rotation"), by_point["augmented"])

    def _neighborhood(
        self,
        bank: Bank,
        image: int,
        hue: Hues,
        cosine: float,
        cosines: Float[Tensor, " k"],
        rows: Int[Tensor, " k"],
        wanted: Int[Tensor, " k"],
    ) -> Neighborhood:
        weight = hue.strength * bank.hues.strength[rows]
        distance = torch.where(weight > 0, hue_distance(hue.angle, bank.hues.angle[rows]), torch.nan)
        columns = (column.tolist() for column in (rows, cosines, distance))
        found = tuple(self._neighbor(image, *row) for row in zip(*columns, strict=True))
        same = [neighbor.same for neighbor in found if neighbor.same is not None]
        return Neighborhood(
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


def check_k(k: int, images: int) -> None:
    """ValueError unless there are k other images than the query."""
    if not 1 <= k < images:
        raise ValueError(f"k must be between 1 and the {images - 1} other images there are, got {k}")


def png(image: UInt8[Tensor, "3 h w"]) -> bytes:
    """The picture as a PNG file, compressed fast rather than well: it does not leave this machine."""
    file = io.BytesIO()
    Image.fromarray(image.permute(1, 2, 0).contiguous().numpy()).save(file, "PNG", compress_level=1)
    return file.getvalue()


def _finite(value: float) -> float | None:
    return value if value == value else None
