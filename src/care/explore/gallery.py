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
from care.explore.bank import Bank, Offer
from care.progress import ProgressCallback, silent
from care.steer import notes_on
from care.tables import visible

LARGEST_SHOWN = 256  # pixels; larger pictures are reduced, because every move of a slider sends one

Changes = Mapping[str, float]
Photo = UInt8[Tensor, "3 h w"]


class Gallery:
    """Images and their embeddings by several models. Neighborhoods hold the k nearest images without the query.

    Every model gets the un-augmented view of its own policy, or that view with the changes. The page shows the view of
    the model that sees most of a picture; the σ of a blur is in pixels of this view. `banks` has the models that have
    embedded the images, by their number among `models`; `embed` makes a bank of one that is only offered.
    """

    def __init__(self, models: Sequence[Bank | Offer], k: int = 8) -> None:
        self.banks = {number: model for number, model in enumerate(models) if isinstance(model, Bank)}
        if not self.banks:
            raise ValueError("none of the models has embedded the images: fill the bank of one")
        self.models, self.k = tuple(models), k
        self.samples = next(iter(self.banks.values())).embedder.samples
        for bank in self.banks.values():
            self._check_images(bank)
        check_k(k, len(self.samples))
        self.shown = max(models, key=lambda model: model.policy.center).policy
        self._labels = self.samples.labels.tolist()
        self._side = min(LARGEST_SHOWN, *self.samples.input_shape)

    def __len__(self) -> int:
        return len(self.samples)

    def embed(self, model: int, progress: ProgressCallback = silent) -> None:
        """Embed the images by a model that is offered; ValueError if it cannot. Of one that has, nothing is done."""
        offer = self.models[model]
        if model not in self.banks and isinstance(offer, Offer):
            bank = offer.fill(progress)
            self._check_images(bank)
            self.banks[model] = bank

    def kind(self, image: int) -> str | None:
        """The class of an image."""
        label = self._labels[image]
        return visible(self.samples.classes[label]) if label >= 0 else None

    def note(self, model: Bank | Offer) -> str:
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
        chosen = [self.banks[model] for model in (self.banks if models is None else models)]
        answers = tuple(self._model_answer(bank, x, number, changes) for bank in chosen)
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

    def _model_answer(self, bank: Bank, x: Tensor, number: int | None, changes: Changes) -> ModelAnswer:
        """All points are on the unit sphere, so cosines are inner products."""
        a = self._augmentation(bank.policy, x, changes, bank.policy.size)
        points, hue = bank.points(x, number, a)
        Z = torch.stack(list(points.values()))
        cosine = Z @ bank.F.mT
        if number is not None:
            cosine[:, number] = -torch.inf
        nearest = cosine.topk(self.k)
        neighborhoods = [
            self._neighborhood(bank, number, hue, *found, nearest.indices[-1])
            for found in zip((Z @ Z[-1]).tolist(), nearest.values, nearest.indices, strict=True)
        ]
        found = dict(zip(points, neighborhoods, strict=True))
        caveats = tuple(notes_on(bank.rotation, bank.policy, a, split="")) if bank.rotation is not None else ()
        return ModelAnswer(bank.name, found["clean"], found.get("learned_rotation"), found["augmented"], caveats)

    def _neighborhood(
        self,
        bank: Bank,
        number: int | None,
        hue: Hues,
        cosine: float,
        cosines: Float[Tensor, " k"],
        rows: Int[Tensor, " k"],
        wanted: Int[Tensor, " k"],
    ) -> Neighborhood:
        weight = hue.strength * bank.hues.strength[rows]
        distance = torch.where(weight > 0, hue_distance(hue.angle, bank.hues.angle[rows]), torch.nan)
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

    def _check_images(self, bank: Bank) -> None:
        if bank.embedder.samples is not self.samples:
            first = next(iter(self.banks.values()))
            raise ValueError(f"{first.name} and {bank.name} were given different images: embed the same ones")


def check_k(k: int, images: int) -> None:
    """ValueError unless there are k images besides the query."""
    if not 1 <= k < images:
        raise ValueError(f"k must be between 1 and the {images - 1} other images there are, got {k}")


def _finite(value: float) -> float | None:
    return value if value == value else None
