"""Embeddings of samples by a frozen model, clean and augmented: the input of every measurement."""

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from care.augment import ImagePolicy, Parameters, apply
from care.augment.naming import Policy
from care.data import Samples, batches
from care.geometry import BilinearForm, Euclidean, form_named

# Pixels times channels embedded at once on a CPU and on a GPU: 500 and 4,000 images of 32 pixels.
NUMBERS_AT_ONCE = (1_536_000, 12_288_000)

EUCLIDEAN = Euclidean()

# The outputs of a trained run: the whole output of the head; with a split embedding, also its equivariant and invariant
# parts; the features of the backbone; and "intermediate", if one of its layers is read. External models have
# "features".
EMBEDDING, INVARIANT, EQUIVARIANT, BACKBONE = "embedding", "invariant", "equivariant", "backbone"

# Inputs → embeddings, by the name of the output: a model may have several.
Embed = Callable[[Tensor], Mapping[str, Tensor]]
Embeddings = dict[str, Float[Tensor, "n _"]]


@dataclass(frozen=True)
class Embedder:
    """Embeds `samples`, clean or augmented, `rows_at_once` at a time. Tensors stay on `device`.

    `forms` maps every output that is not measured on the sphere to its bilinear form.
    """

    embed: Embed
    samples: Samples
    policy: Policy
    policy_name: str
    device: torch.device
    batch_size: int | None = None
    forms: Mapping[str, BilinearForm] = field(default_factory=dict)

    def form(self, output: str) -> BilinearForm:
        """The bilinear form of an output: Euclidean, on the sphere, unless `forms` has another."""
        return self.forms.get(output, EUCLIDEAN)

    def points(self, embeddings: Mapping[str, Tensor]) -> Embeddings:
        """The embeddings as points of their spaces."""
        return {output: self.form(output).embed(z) for output, z in embeddings.items()}

    def also_with(self, forms: Sequence[str]) -> "Embedder":
        """A copy with additional outputs: the embedding in the spaces of other forms, `embedding-minkowski` …"""
        names = {output_in_form(form): form_named(form) for form in forms}
        embedder = dataclasses.replace(self, forms={**self.forms, **names})

        def embed(inputs: Tensor) -> Mapping[str, Tensor]:
            found = self.embed(inputs)
            return {**found, **dict.fromkeys(names, found[EMBEDDING])}

        return dataclasses.replace(embedder, embed=embed) if names else embedder

    def take(self, rows: Int[Tensor, " k"]) -> "Embedder":
        """A copy for the samples at these rows only."""
        return dataclasses.replace(self, samples=self.samples.take(rows))

    @property
    def rows_at_once(self) -> int:
        """`batch_size`, or as many as keep the device busy without filling its memory."""
        view = 3 * self.policy.size**2 if isinstance(self.policy, ImagePolicy) else 0
        largest = max(view, math.prod(self.samples.stored.shape[1:]))
        return self.batch_size or max(1, NUMBERS_AT_ONCE[self.device.type == "cuda"] // largest)

    def clean(self) -> Embeddings:
        """f(x) of the clean samples, resized to the policy's size."""
        return self.augmented(self.policy.unchanged(1, self.samples.input_shape))  # type: ignore[arg-type]

    def augmented(self, *augmentations: Parameters) -> Embeddings:
        """f(a(x)) for one augmentation a of all samples; with several, applied one after the other, f(…b(a(x)))."""
        here = [a.to(self.device) for a in augmentations]
        return self._embed(lambda rows: [a.repeat(len(rows)) for a in here])

    def augmented_each(self, augmentations: Parameters) -> Embeddings:
        """f(a_i(x_i)): every sample with its own augmentation."""
        here = augmentations.to(self.device)
        return self._embed(lambda rows: [here[rows[0] : rows[-1] + 1]])

    @torch.no_grad()
    def _embed(self, augmentations: Callable[[range], list[Parameters]]) -> Embeddings:
        found: list[Mapping[str, Tensor]] = []
        n, size = len(self.samples), self.rows_at_once
        blocks = [range(start, min(start + size, n)) for start in range(0, n, size)]
        order = (torch.arange(rows.start, rows.stop) for rows in blocks)
        for rows, inputs in zip(blocks, batches(self.samples, order, self.device), strict=True):
            embedded = self.embed(apply(inputs, augmentations(rows)))
            found.append({name: _checked(z, name, len(rows)) for name, z in embedded.items()})
        return {name: torch.cat([part[name] for part in found]) for name in found[0]}


def output_in_form(form: str) -> str:
    """The name of the embedding as measured in the space of another form than the one it was trained with."""
    return f"{EMBEDDING}-{form}"


def equivariant_output(outputs: Iterable[str]) -> str:
    """The output that the equivariance loss acts on: the equivariant part of a split embedding, or the whole embedding.

    An external model has neither; its first output is returned.
    """
    return _first(outputs, EQUIVARIANT, EMBEDDING)


def invariant_output(outputs: Iterable[str]) -> str:
    """The output that the method acts on: the invariant part of a split embedding, the whole embedding, or the first
    output of an external model."""
    return _first(outputs, INVARIANT, EMBEDDING)


def _first(outputs: Iterable[str], *wanted: str) -> str:
    names = list(outputs)
    return next((name for name in wanted if name in names), names[0])


def features_of(embeddings: Mapping[str, Tensor]) -> Float[Tensor, "n d"]:
    """The features for downstream tasks: the backbone's output, un-normalized, or else the first output."""
    return embeddings[BACKBONE] if BACKBONE in embeddings else next(iter(embeddings.values()))


def device_of(model: object, samples: Samples) -> torch.device:
    """The device of a model, or that of the samples if the model has no weights."""
    weights = next(model.parameters(), None) if isinstance(model, nn.Module) else None
    return samples.device if weights is None else weights.device


def _checked(z: object, name: str, inputs: int) -> Float[Tensor, "n d"]:
    """The embeddings of a batch of `inputs`; ValueError for anything else that a model may return."""
    if not isinstance(z, Tensor) or z.ndim != 2 or len(z) != inputs:
        given = f"{list(z.shape)} for {inputs} inputs" if isinstance(z, Tensor) else f"a {type(z).__name__}"
        hint = _as_embeddings(z, inputs)
        raise ValueError(f"a model must give embeddings [n, d], one row per input; {name} gives {given}{hint}")
    return z.float() if z.dtype in (torch.float16, torch.bfloat16) else z


def _as_embeddings(z: object, inputs: int) -> str:
    """What to do with an output that is often taken for embeddings; empty if that is not known."""
    if isinstance(z, Tensor):
        a_map = z.ndim == 4 and len(z) == inputs
        return ": take its mean over positions, lambda x: model(x).mean((2, 3))" if a_map else ""
    if isinstance(z, Mapping):
        return f" of {', '.join(map(str, z))}: choose one, lambda x: model(x)[{next(iter(z), None)!r}]"
    if isinstance(z, tuple | list):
        return ": choose one of its tensors, lambda x: model(x)[0]"
    return ": make it a tensor, lambda x: torch.from_numpy(model(x))" if isinstance(z, np.ndarray) else ""
