"""A frozen model looking at samples under augmentations: where every measurement of a model begins."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor, nn

from care.augment import ImagePolicy, Parameters, PointPolicy, apply
from care.data import Samples, batches
from care.geometry import BilinearForm, Euclidean, form_named

Policy = ImagePolicy | PointPolicy

# Pixels times channels that are embedded at once on a CPU and on a GPU: 500 and 4,000 images of 32 pixels.
NUMBERS_AT_ONCE = (1_536_000, 12_288_000)

EUCLIDEAN = Euclidean()

# Inputs → embeddings, by the name of the output: a model may be looked at in more than one place at once.
Embed = Callable[[Tensor], Mapping[str, Tensor]]
Embeddings = dict[str, Float[Tensor, "n _"]]


@dataclass(frozen=True)
class Observer:
    """Embeds `samples`, `rows_at_once` at a time, as they are or under augmentations. Tensors stay on `device`."""

    embed: Embed
    samples: Samples
    policy: Policy
    policy_name: str
    device: torch.device
    batch_size: int | None = None
    forms: Mapping[str, BilinearForm] = field(default_factory=dict)

    def form(self, output: str) -> BilinearForm:
        """The form whose space an output lives in: the sphere, unless `forms` has another."""
        return self.forms.get(output, EUCLIDEAN)

    def points(self, embeddings: Mapping[str, Tensor]) -> Embeddings:
        """The embeddings as points of their spaces."""
        return {output: self.form(output).embed(z) for output, z in embeddings.items()}

    def also_with(self, forms: Sequence[str]) -> "Observer":
        """The same, with the head looked at as a point of the spaces of other forms too: `embedding-minkowski` …"""
        names = {seen_with(form): form_named(form) for form in forms}
        look = dataclasses.replace(self, forms={**self.forms, **names})

        def embed(inputs: Tensor) -> Mapping[str, Tensor]:
            found = self.embed(inputs)
            return {**found, **dict.fromkeys(names, found["embedding"])}

        return dataclasses.replace(look, embed=embed) if names else look

    @property
    def rows_at_once(self) -> int:
        """`batch_size`, or as many as keep the device busy without filling its memory."""
        view = 3 * self.policy.size**2 if isinstance(self.policy, ImagePolicy) else 0
        largest = max(view, self.samples.inputs[0].numel())
        return self.batch_size or max(1, NUMBERS_AT_ONCE[self.device.type == "cuda"] // largest)

    def clean(self) -> Embeddings:
        """f(x): the samples at the policy's size, otherwise as they are."""
        return self.augmented(self.policy.unchanged(1, self.samples.source))  # type: ignore[arg-type]

    def augmented(self, *augmentations: Parameters) -> Embeddings:
        """f(a(x)) for one augmentation that hits all samples alike, or several, the first of them first."""
        here = [a.to(self.device) for a in augmentations]
        return self._look(lambda rows: [a.repeat(len(rows)) for a in here])

    def augmented_each(self, augmentations: Parameters) -> Embeddings:
        """f(a_i(x_i)): sample i under augmentation i."""
        here = augmentations.to(self.device)
        return self._look(lambda rows: [here[rows[0] : rows[-1] + 1]])

    @torch.no_grad()
    def _look(self, augmentations: Callable[[range], list[Parameters]]) -> Embeddings:
        found: list[Mapping[str, Tensor]] = []
        n, size = len(self.samples), self.rows_at_once
        blocks = [range(start, min(start + size, n)) for start in range(0, n, size)]
        order = (torch.arange(rows.start, rows.stop) for rows in blocks)
        for rows, inputs in zip(blocks, batches(self.samples, order, self.device), strict=True):
            found.append(self.embed(apply(inputs, augmentations(rows))))
        return {name: torch.cat([_checked(part[name], name) for part in found]) for name in found[0]}


def seen_with(form: str) -> str:
    """What the head is called where it is looked at with another form than it was trained with."""
    return f"embedding-{form}"


def features_of(embeddings: Mapping[str, Tensor]) -> Float[Tensor, "n d"]:
    """What downstream tasks use: the backbone's output, un-normalized, or the only output there is."""
    return embeddings["backbone"] if "backbone" in embeddings else next(iter(embeddings.values()))


@contextmanager
def frozen(model: object) -> Iterator[None]:
    """A module in evaluation mode, so that it looks at every sample in the same way; as it was, afterwards."""
    modules = [m for m in model.modules() if m.training] if isinstance(model, nn.Module) else []
    for module in modules:
        module.training = False
    try:
        yield
    finally:
        for module in modules:
            module.training = True


def _checked(z: Tensor, name: str) -> Float[Tensor, "n d"]:
    if not isinstance(z, Tensor) or z.ndim != 2:
        shape = list(z.shape) if isinstance(z, Tensor) else type(z).__name__
        raise ValueError(f"a model must give embeddings [n, d], one row per input; {name} is {shape}")
    return z.float() if z.dtype in (torch.float16, torch.bfloat16) else z
