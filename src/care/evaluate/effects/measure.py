"""How the embeddings of any model respond to augmentations."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from care import geometry
from care.augment import policy_named
from care.data import Samples, place
from care.evaluate.effects.effect import Response, Spread
from care.evaluate.effects.families import ALL, CacheEffect, Watch, respond_to_families
from care.evaluate.observer import EUCLIDEAN, Embeddings, Observer, Policy, device_of, frozen
from care.geometry import POINTS_PER_DIRECTION, BilinearForm, Euclidean, Source, Symplectic, symplectic_strength
from care.tables import number, text_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The share of the variance of embeddings that rotations must have been fitted in for a verdict in words.
ENOUGH = 0.9

COLUMNS = {
    "displacement": "displacement",
    "held-out ratio": "heldout_ratio",
    "unexplained": "unexplained",
    "any linear map": "heldout_linear",
    "composition error": "composition_error",
    "γ_f": "gamma",
    "W_f": "wahba",
    "Gram error": "gram_error",
}
COLLAPSE = {
    "rankme": "RankMe",
    "effective_rank": "effective rank",
    "alignment": "alignment",
    "gaussian_uniformity": "uniformity",
}


@dataclass(frozen=True)
class Measurement:
    """How a model's embeddings respond to augmentations: `print(m)`, `m.figure()`, `m.to_json()`.

    The measures of the whole policy are attributes, `m.heldout_ratio.mean`, `m.gamma.values`; those of single
    families are in `m.families["color"]`, each drawn alone and with probability 1. `Response` says what each measure
    is. `spectrum` holds the singular values of the centered embeddings, divided by √n. Where
    embeddings are not on the sphere, `length` is the mean of ‖f(x)‖, and `strength` that of the symplectic form.
    `size` is the side of the views, of images. On the sphere, rotations were fitted in the `rank` leading directions,
    which hold a `share` of the variance of the embeddings.

    `collapse` says how many directions the embeddings use, `rankme` and `effective_rank`, and how far apart they are,
    `alignment` and `gaussian_uniformity`: `care.geometry` has the formulas. Records of earlier versions have none.
    """

    model: str
    policy: str
    images: int
    dimension: int
    families: Mapping[str, Response]
    spectrum: tuple[float, ...]
    length: float | None = None
    strength: float | None = None
    size: int | None = None
    collapse: Mapping[str, float] = field(default_factory=dict)
    rank: int | None = None
    share: float | None = None

    @property
    def heldout_ratio(self) -> Spread:
        """The error that the best rotation leaves on all images there could be: 0 exact, 1 no better than none."""
        return self.families[ALL].heldout_ratio

    @property
    def composition_error(self) -> Spread:
        """The error of R_b R_a as a prediction of b∘a: 0 exact, 1 no better than none."""
        return self.families[ALL].composition_error

    @property
    def displacement(self) -> Spread:
        """E ‖f(a(x)) − f(x)‖: 0 invariant."""
        return self.families[ALL].displacement

    @property
    def gamma(self) -> Spread:
        """The paper's γ_f."""
        return self.families[ALL].gamma

    @property
    def wahba(self) -> Spread:
        """The paper's W_f."""
        return self.families[ALL].wahba

    @property
    def gram_error(self) -> Spread:
        """E [B(f(a x), f(a x')) − B(f(x), f(x'))]²: how much augmentations change the angles between embeddings."""
        return self.families[ALL].gram_error

    def table(self) -> str:
        """The measures by family, mean ± standard deviation over augmentations, as text."""
        rows = [
            (name, *(str(getattr(response, column)) for column in COLUMNS.values()), self.in_words(name))
            for name, response in self.families.items()
        ]
        count = len(self.families[ALL].augmentations)
        views = f"views of {self.size} pixels, " if self.size else ""
        about = f"{self.images:,} images, {views}{count} augmentations of {self.policy}, {self.directions}"
        table = text_table(f"{self.model}: {about}", ("family", *COLUMNS, "in words"), rows)
        return table + self._collapse() + self._caution()

    def _collapse(self) -> str:
        """The measures of collapse in a line below the table."""
        words = (f"{COLLAPSE[name]} {number(value)}" for name, value in self.collapse.items())
        return f"\n{', '.join(words)} (d = {self.dimension})" if self.collapse else ""

    @property
    def directions(self) -> str:
        """d and, where not all were used, in how many directions rotations were fitted."""
        within = "" if self.rank in (None, self.dimension) else f", rotations of the {self.rank} leading directions"
        return f"d = {self.dimension}{within}"

    @property
    def images_needed(self) -> int | None:
        """How many images it would take to fit rotations of the directions that hold most of what embeddings are.

        None where the images were enough.
        """
        if self.share is None or self.share >= ENOUGH:
            return None
        return POINTS_PER_DIRECTION * self.dimension

    def _caution(self) -> str:
        """What is missing, where there are too few images for a verdict."""
        if self.images_needed is None:
            return ""
        return (
            f"\n{self.images:,} images can tell rotations of {self.rank} directions, which hold "
            f"{100 * (self.share or 0):.0f} % of their variance: {self.images_needed:,} images are enough for all.\n"
        )

    def in_words(self, family: str) -> str:
        """What the response to a family is, or that there are too few images to tell."""
        words = self.families[family].in_words()
        few = self.images_needed is not None and words != "invariant"
        return f"too few images to tell, {self.images_needed:,} are needed" if few else words

    def __str__(self) -> str:
        return self.table()

    def figure(self) -> "Figure":
        """The measures by family as a picture."""
        from care.report import response_figure  # matplotlib takes a while to load

        return response_figure({self.model: self.values()})

    def values(self) -> dict[str, dict[str, list[float | None]]]:
        """Family → measure → one value per augmentation, None for ratios of one to which embeddings are invariant."""
        words = ("augmentations", "in_words")
        records = {family: response.to_json() for family, response in self.families.items()}
        return {family: {k: v for k, v in record.items() if k not in words} for family, record in records.items()}

    def to_json(self) -> dict[str, Any]:
        """Everything, ready for `json.dump`."""
        families = {name: response.to_json() for name, response in self.families.items()}
        about = {"model": self.model, "policy": self.policy, "images": self.images, "dimension": self.dimension}
        for name, record in families.items():
            record["in_words"] = self.in_words(name)
        rest = {"length": self.length, "strength": self.strength, "size": self.size, "collapse": dict(self.collapse)}
        fitted = {"rank": self.rank, "share": self.share}
        return {**about, "families": families, "spectrum": list(self.spectrum), **rest, **fitted}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> "Measurement":
        """Undoes `to_json`."""
        families = {name: Response.from_json(part) for name, part in record["families"].items()}
        return cls(**{**record, "families": families, "spectrum": tuple(record["spectrum"])})


def measure(
    model: Callable[[Tensor], Tensor],
    images: Tensor | Samples,
    policy: Policy | str = "simclr",
    *,
    augmentations: int = 20,
    families: bool = True,
    form: BilinearForm = EUCLIDEAN,
    name: str = "model",
    seed: int = 0,
    batch_size: int | None = None,
    device: torch.device | str | None = None,
    watch: Watch | None = None,
    rank: int | None = None,
) -> Measurement:
    """How the embeddings `model(images)` respond to augmentations of `policy`.

    `model` is any function of images [n, 3, size, size] in [0, 1] (or of point clouds) that returns embeddings [n, d];
    a module is put into evaluation mode meanwhile. Embeddings are put on the unit sphere, or in the space of `form`.
    `images` are uint8 or in [0, 1]; the policy makes views of its own size of them. The same seed draws the same
    augmentations for every model: measurements are paired. It runs where the model is, or on `device`. Rotations are
    those of the `rank` leading directions: by default of all, or of a quarter as many as there are images.
    """
    samples = images if isinstance(images, Samples) else _samples(images)
    words = policy if isinstance(policy, str) else "a custom policy"
    policy = policy_named(policy) if isinstance(policy, str) else policy
    where = torch.device(device) if device is not None else device_of(model, samples)
    embed, placed = (lambda x: {name: model(x)}), place(samples, where)
    observer = Observer(embed, placed, policy, words, where, batch_size, {name: form})
    with frozen(model):
        return measure_observed(observer, augmentations, families, seed, watch, rank)[name]


def measure_observed(
    observer: Observer,
    augmentations: int = 20,
    families: bool = True,
    seed: int = 0,
    watch: Watch | None = None,
    rank: int | None = None,
) -> dict[str, Measurement]:
    """`measure` for every output of an observed model at once."""
    return measure_outputs(observer, observer.clean(), augmentations, families, seed, watch, rank=rank)


def measure_outputs(
    observer: Observer,
    clean: Embeddings,
    augmentations: int = 20,
    families: bool = True,
    seed: int = 0,
    watch: Watch | None = None,
    cache: CacheEffect | None = None,
    rank: int | None = None,
) -> dict[str, Measurement]:
    """`measure_observed` where `clean` holds the outputs of the model for the clean samples.

    `cache` is called with the effect of every augmentation as soon as it is measured.
    """
    F = observer.points(clean)
    found, sources = respond_to_families(observer, F, augmentations, families, seed, watch, cache, rank)
    return {
        output: _measurement(output, observer, z, found[output], sources.get(output)) for output, z in clean.items()
    }


def _measurement(
    name: str, observer: Observer, z: Tensor, families: Mapping[str, Response], source: Source | None
) -> Measurement:
    form, (n, d) = observer.form(name), z.shape
    F = form.embed(z)
    sigma = geometry.spectrum(F)
    collapse = {
        "rankme": geometry.rankme(z).item(),
        "effective_rank": geometry.effective_rank(sigma).item(),
        "alignment": 2 - 2 * families[ALL].cosine.mean,
        "gaussian_uniformity": geometry.gaussian_uniformity(F).item(),
    }
    length = None if isinstance(form, Euclidean) else F.norm(dim=1).mean().item()
    strength = symplectic_strength(F).item() if isinstance(form, Symplectic) else math.nan
    known = None if math.isnan(strength) else strength
    size = getattr(observer.policy, "size", None)
    values = tuple(sigma.tolist())
    fitted = (None, None) if source is None else (source.dimension, source.share)
    return Measurement(name, observer.policy_name, n, d, families, values, length, known, size, collapse, *fitted)


def _samples(inputs: Tensor) -> Samples:
    """Unlabeled samples; images in [0, 1] are rounded to 8 bits, which is what nearly all of them were."""
    if inputs.is_floating_point() and inputs.ndim == 4:
        if inputs.min() < 0 or inputs.max() > 1:
            raise ValueError("images must be in [0, 1], before any normalization; put that into the model")
        inputs = (255 * inputs).round().to(torch.uint8)
    labels = torch.full((len(inputs),), -1, device=inputs.device)
    return Samples(inputs, labels, ())
