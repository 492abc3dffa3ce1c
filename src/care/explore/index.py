"""The index of a model: its embeddings of all images, computed once, among which neighbors are searched."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from care.augment import ImageParameters, ImagePolicy, apply
from care.data import batches
from care.evaluate.embedder import Embedder
from care.evaluate.retrieval.hue import Hues, mean_hue
from care.geometry import Euclidean
from care.progress import ProgressCallback, silent
from care.steer import LearnedRotation


@dataclass(frozen=True, eq=False)
class Index:
    """f(x) of every image on the unit sphere, F, and the hues of the views that were embedded.

    `embedder` holds the model and the images, `policy` defines the un-augmented view of an image. The learned
    `rotation` predicts f(a(x)) from f(x); `note` is shown to the user, for example how to fit a missing rotation.
    """

    name: str
    embedder: Embedder
    policy: ImagePolicy
    F: Float[Tensor, "n d"]
    hues: Hues
    rotation: LearnedRotation | None = None
    note: str = ""

    @torch.no_grad()
    def points(
        self, pixels: UInt8[Tensor, "1 3 h w"], number: int | None, a: ImageParameters
    ) -> tuple[dict[str, Float[Tensor, " d"]], Hues]:
        """f(x), R(θ) f(x) if there is a learned rotation, and f(a(x)), on the unit sphere, and the hue of a(x).

        x is the image of that `number`, whose f(x) is known, or a photo, which has none.
        """
        here = self.embedder.device
        x = pixels.to(here)
        z = self._embedded_clean(x) if number is None else self.F[number]
        view, found = apply(x, a.to(here)), {"clean": z}
        if self.rotation is not None:
            found["learned_rotation"] = Euclidean().embed(self.rotation.rotate(z[None], a))[0]
        found["augmented"] = _embedded(self.embedder, view)[0]
        return found, mean_hue(view)

    def _embedded_clean(self, x: UInt8[Tensor, "1 3 h w"]) -> Float[Tensor, " d"]:
        height, width = x.shape[-2:]
        return _embedded(self.embedder, apply(x, self.policy.unchanged(1, (height, width)).to(x.device)))[0]


@dataclass(frozen=True, eq=False)
class LazyIndex:
    """The index of a model that is built when the model is chosen; the name, policy and note are known before."""

    name: str
    policy: ImagePolicy
    build: Callable[[ProgressCallback], Index]
    note: str = ""


@torch.no_grad()
def check_rotation(name: str, embedder: Embedder, rotation: LearnedRotation | None) -> None:
    """ValueError if the learned rotation was fitted to other embeddings than those of the embedder's model."""
    if rotation is None:
        return
    first = next(iter(dataclasses.replace(embedder, samples=embedder.samples.limit(1)).clean().values()))
    if len(rotation.basis) != first.shape[1]:
        raise ValueError(
            f"the learned rotation of {name} is of {len(rotation.basis)} dimensions, and its embeddings "
            f"have {first.shape[1]}: run care steer to fit one to the present model"
        )


@torch.no_grad()
def build_index(
    name: str,
    embedder: Embedder,
    rotation: LearnedRotation | None = None,
    note: str = "",
    progress: ProgressCallback = silent,
) -> Index:
    """Embed all clean images of the embedder, by the first output of its model."""
    samples, device, policy = embedder.samples, embedder.device, embedder.policy
    if not isinstance(policy, ImagePolicy):
        raise ValueError(f"only images can be explored, and {samples.name} holds point clouds")
    check_rotation(name, embedder, rotation)
    height, width = samples.input_shape
    unchanged = policy.unchanged(1, (height, width)).to(device)
    F, hues = [], []
    for block in batches(samples, torch.arange(len(samples)).split(embedder.rows_at_once), device):
        views = apply(block, unchanged.repeat(len(block)))
        F.append(_embedded(embedder, views))
        hues.append(mean_hue(views))
        progress(f"embedding by {name}", sum(map(len, F)), len(samples))
    rotation = None if rotation is None else rotation.to(device)
    angle, strength = (torch.cat(column) for column in zip(*hues, strict=True))
    return Index(name, embedder, policy, torch.cat(F), Hues(angle, strength), rotation, note)


def _embedded(embedder: Embedder, views: Float[Tensor, "n 3 h w"]) -> Float[Tensor, "n d"]:
    """The model's first output, on the unit sphere."""
    return Euclidean().embed(next(iter(embedder.embed(views).values())).float())
