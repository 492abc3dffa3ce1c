"""The nearest neighbors of f(x), R(θ) f(x) and f(a(x)), by every model, for one picture and one augmentation."""

import dataclasses
from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from care.augment import ImageParameters, ImagePolicy, apply
from care.augment.changes import changed
from care.evaluate.retrieval.hue import Hues, hue_distance
from care.explore.answers import Answer, ModelAnswer, Neighbor, Neighborhood
from care.explore.index import Index, LazyIndex
from care.progress import ProgressCallback, silent
from care.steer import rotation_caveats
from care.tables import visible

LARGEST_SHOWN = 256  # pixels; larger pictures are reduced, because every move of a slider sends one

Changes = Mapping[str, float]
Photo = UInt8[Tensor, "3 h w"]


class Gallery:
    """Images and their embeddings by several models. Neighborhoods hold the k nearest images without the query.

    Every model gets the un-augmented view of its own policy, or that view with the changes. The page shows the view of
    the model that sees most of a picture; the σ of a blur is in pixels of this view. `indexes` has the models that have
    embedded the images, by their number among `models`; `embed` builds the index of one that has not.
    """

    def __init__(self, models: Sequence[Index | LazyIndex], k: int = 8) -> None:
        self.indexes = {number: model for number, model in enumerate(models) if isinstance(model, Index)}
        if not self.indexes:
            raise ValueError("none of the models has embedded the images: build the index of one")
        self.models, self.k = tuple(models), k
        self.samples = next(iter(self.indexes.values())).embedder.samples
        for index in self.indexes.values():
            self._check_images(index)
        check_k(k, len(self.samples))
        self.shown = max(models, key=lambda model: model.policy.center).policy
        self._labels = self.samples.labels.tolist()
        self._side = min(LARGEST_SHOWN, *self.samples.input_shape)

    def __len__(self) -> int:
        return len(self.samples)

    def embed(self, model: int, progress: ProgressCallback = silent) -> None:
        """Embed the images by a model that has not yet; ValueError if it cannot."""
        lazy = self.models[model]
        if model not in self.indexes and isinstance(lazy, LazyIndex):
            index = lazy.build(progress)
            self._check_images(index)
            self.indexes[model] = index

    def kind(self, image: int) -> str | None:
        """The class of an image."""
        label = self._labels[image]
        return visible(self.samples.classes[label]) if label >= 0 else None

    def note(self, model: Index | LazyIndex) -> str:
        """What the reader should know of a model: also that it sees less of the picture than is shown."""
        center = model.policy.center
        less = f"This model sees the central {center:g} of a picture." if center < self.shown.center else ""
        return " ".join(sentence for sentence in (model.note, less) if sentence)

    def view(self, query: int | Photo, changes: Changes) -> UInt8[Tensor, "3 side side"]:
        """The augmented picture at its own resolution; a model may get it at another."""
        x = self._pixels(query).cpu()
        pixels = apply(x, self._augmentation(self.shown, x, changes, self._side))[0]
        return (255 * pixels).round().clamp(0, 255).to(torch.uint8)

    def answer(self, query: int | Photo, changes: Changes, models: Sequence[int] | None = None) -> Answer:
        """The answers of all models that have embedded the images, or of some, to changes of an image or a photo.

        ValueError if there is no such image or change.
        """
        x, number = self._pixels(query), query if isinstance(query, int) else None
        what = self._augmentation(self.shown, x, changes, self.shown.size).describe(0) if changes else "identity"
        chosen = [self.indexes[model] for model in (self.indexes if models is None else models)]
        answers = tuple(self._model_answer(index, x, number, changes) for index in chosen)
        kind = None if number is None else self.kind(number)
        return Answer(number, kind, what, self.view(query, changes), answers)

    def _pixels(self, query: int | Photo) -> UInt8[Tensor, "1 3 h w"]:
        if not isinstance(query, int):
            return query[None]
        if not 0 <= query < len(self):
            raise ValueError(f"there are images 0 to {len(self) - 1}, got {query}")
        return self.samples.take(torch.tensor([query])).inputs

    def _augmentation(self, policy: ImagePolicy, x: Tensor, changes: Changes, size: int) -> ImageParameters:
        """The augmentation with these changes of the un-augmented view, at `size` pixels, with a blur as wide in it."""
        wide = {"blur": changes["blur"] * size / self.shown.size} if "blur" in changes else {}
        height, width = x.shape[-2:]
        unchanged = dataclasses.replace(policy.unchanged(1, (height, width)), size=size)
        return changed(unchanged, {**changes, **wide})

    def _model_answer(self, index: Index, x: Tensor, number: int | None, changes: Changes) -> ModelAnswer:
        """All points are on the unit sphere, so cosines are inner products."""
        a = self._augmentation(index.policy, x, changes, index.policy.size)
        points, hue = index.points(x, number, a)
        Z = torch.stack(list(points.values()))
        cosine = Z @ index.F.mT
        if number is not None:
            cosine[:, number] = -torch.inf
        nearest = cosine.topk(self.k)
        neighborhoods = [
            self._neighborhood(index, number, hue, *found, nearest.indices[-1])
            for found in zip((Z @ Z[-1]).tolist(), nearest.values, nearest.indices, strict=True)
        ]
        found = dict(zip(points, neighborhoods, strict=True))
        caveats = (
            tuple(rotation_caveats(index.rotation, index.policy, a, split="")) if index.rotation is not None else ()
        )
        return ModelAnswer(index.name, found["clean"], found.get("learned_rotation"), found["augmented"], caveats)

    def _neighborhood(
        self,
        index: Index,
        number: int | None,
        hue: Hues,
        cosine: float,
        cosines: Float[Tensor, " k"],
        rows: Int[Tensor, " k"],
        wanted: Int[Tensor, " k"],
    ) -> Neighborhood:
        weight = hue.strength * index.hues.strength[rows]
        distance = torch.where(weight > 0, hue_distance(hue.angle, index.hues.angle[rows]), torch.nan)
        columns = (column.tolist() for column in (rows, cosines, distance))
        found = tuple(self._neighbor(number, *row) for row in zip(*columns, strict=True))
        same = [neighbor.same for neighbor in found if neighbor.same is not None]
        return Neighborhood(
            cosine=cosine,
            neighbors=found,
            shared=int(torch.isin(rows, wanted).sum()),
            same=sum(same) if same else None,
            hue_distance=_finite(float((weight * distance).nansum() / weight.sum())),
        )

    def _neighbor(self, query: int | None, image: int, cosine: float, distance: float) -> Neighbor:
        label, wanted = self._labels[image], -1 if query is None else self._labels[query]
        same = label == wanted if label >= 0 and wanted >= 0 else None
        return Neighbor(image, cosine, self.kind(image), same, _finite(distance))

    def _check_images(self, index: Index) -> None:
        if index.embedder.samples is not self.samples:
            first = next(iter(self.indexes.values()))
            raise ValueError(f"{first.name} and {index.name} were given different images: embed the same ones")


def check_k(k: int, images: int) -> None:
    """ValueError unless there are k images besides the query."""
    if not 1 <= k < images:
        raise ValueError(f"k must be between 1 and the {images - 1} other images there are, got {k}")


def _finite(value: float) -> float | None:
    return value if value == value else None
