"""CARE (Gupta, Robinson, Lim, Villar and Jegelka, 2023): an augmentation keeps the angles between embeddings.

It then acts on all embeddings as one orthogonal map, by the theorem behind Wahba's problem.
"""

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from care.augment.naming import Policy
from care.geometry import form_named
from care.losses import equivariance
from care.models import Encoder
from care.objective import (
    Context,
    EncodedView,
    Equivariance,
    Method,
    Settings,
    Term,
    Terms,
    ViewPlan,
    ViewSpec,
    setting,
)


@dataclass(frozen=True, kw_only=True)
class CARESettings(Settings):
    """Settings of CARE."""

    care_weight: float = setting(3.0, "λ, the weight of the equivariance loss, which is a mean over pairs.", above=0)
    chunks: int = setting(16, "Number of chunks of a batch; the images of a chunk share an augmentation.")
    form: Literal["euclidean", "minkowski", "symplectic"] = setting(
        "euclidean", "The bilinear form that augmentations should preserve."
    )
    equivariance_policy: str | None = setting(None, "Augmentations of the equivariance loss. Default: --policy.")
    equivariance_views: Literal["own", "composed", "shared", "mixed"] = setting(
        "own",
        "own: two more views, drawn per chunk (the paper). composed: two more views that augment the method's first "
        "view once more. shared: the method's two views, drawn per chunk, serve both losses. mixed: as shared, with "
        "one view drawn per chunk and one per sample.",
    )
    contrast: Literal["own", "all"] = setting(
        "own",
        "own: the method compares its own views (the paper). all: it compares all pairs, including the two views of "
        "the equivariance; under another --equivariance-policy these two differ by that policy alone, and are mostly "
        "easier positives.",
    )
    augmentation_per: Literal["chunk", "batch"] = setting(
        "chunk", "Draw one augmentation per chunk, as in the paper, or per batch, as the authors' program does."
    )
    identity_probability: float = setting(
        0.0, "Probability that a chunk's augmentation is the identity, for a and a' separately.", at_least=0, at_most=1
    )
    equivariance_fraction: float = setting(
        1.0, "Compute the equivariance loss on this fraction of each chunk: 0.25 costs 2.5 views, not 4.",
        above=0, at_most=1,
    )  # fmt: skip


class CARE(Equivariance):
    """L_CARE = L_method + λ L_equi, L_equi = E_a E_{x≠x'} [B(f(a x), f(a x')) − B(f(a' x), f(a' x'))]²."""

    Settings: ClassVar[type[CARESettings]] = CARESettings

    def __init__(self, settings: Any, encoder: Encoder, context: Context) -> None:
        super().__init__(settings, encoder, context)
        self.chunks, self.form = settings.chunks // context.processes, form_named(settings.form)

    @classmethod
    def check(cls, settings: Any, context: Context, method: type[Method] | None) -> None:
        """ValueError unless the chunks divide the batch, and the views suit the method."""
        check_chunks(settings.chunks, context)
        check_fraction(settings.equivariance_fraction, context.batch // settings.chunks)
        if settings.form == "symplectic" and context.embedding_dim % 2:
            raise ValueError("the symplectic form needs an even embedding_dim")
        if settings.contrast == "all" and not (method is not None and method.any_views):
            name = "no method is chosen" if method is None else f"{method.__name__} takes a fixed number"
            raise ValueError(f"contrast all needs a method that compares any number of views, as SimCLR does: {name}")
        if settings.contrast == "all" and settings.equivariance_fraction < 1:
            raise ValueError("contrast all compares views of the same samples: leave out equivariance_fraction")
        if settings.equivariance_views != "own":
            check_views(settings, method, cls.uses_theta)

    @classmethod
    def plan(cls, settings: Any, views: tuple[ViewSpec, ...], policy: Policy, batch: int) -> ViewPlan:
        """Algorithm 1: two views drawn per chunk, beside the method's views or in their place.

        Composed views are a(t x) and a'(t x), with t the augmentation of the method's first view: L_equi then applies
        to the images that the method sees, and not to clean ones. Comparing one such view with t x itself would not
        work: the encoder could detect that it was augmented twice, and use −1 as the rotation of every a.
        """
        draws = settings.chunks if settings.augmentation_per == "chunk" else 1
        chunk, changing = batch // settings.chunks, dataclasses.replace(policy, identity=settings.identity_probability)
        chunked = ViewSpec(changing, draws, chunk=chunk, kept=round(chunk * settings.equivariance_fraction))
        n, which = len(views), settings.equivariance_views
        if which in ("own", "composed"):
            more = dataclasses.replace(chunked, base=0 if which == "composed" else None)
            compared = n + 2 if settings.contrast == "all" else n
            return ViewPlan((*views, more, more), tuple(range(compared)), (n, n + 1))
        if n != 2:
            raise ValueError(f"equivariance_views {which} needs a method with two views, not {n}")
        return ViewPlan((chunked, chunked if which == "shared" else views[1]), (0, 1), (0, 1))

    def terms(self, *views: EncodedView) -> Terms:
        """L_equi of the two views."""
        a, b = views
        return {"equivariance": Term(equivariance(a.z, b.z, self.chunks, self.form), self.settings.care_weight)}


# Settings that apply to views drawn by the equivariance, and not to views shared with the method.
OF_DRAWN_VIEWS = (
    "equivariance_policy", "contrast", "augmentation_per", "identity_probability", "equivariance_fraction",
)  # fmt: skip


def check_views(settings: CARESettings, method: type[Method] | None, theta: bool) -> None:
    """ValueError unless the equivariance can share the method's views, or augment them once more."""
    which = settings.equivariance_views
    if method is None:
        raise ValueError(f"equivariance_views {which} needs a method to share views with")
    if which == "composed" and theta:
        raise ValueError(
            "equivariance_views composed: steering needs the parameters of the whole augmentation, but only those of "
            "the second one are known"
        )
    for name in () if which == "composed" else OF_DRAWN_VIEWS:
        default = next(field.default for field in dataclasses.fields(settings) if field.name == name)
        if getattr(settings, name) != default:
            raise ValueError(f"{name} needs views drawn for the equivariance: leave it out, or equivariance_views own")


def check_chunks(chunks: int, context: Context) -> None:
    """ValueError unless chunks have equal sizes of at least 2 images, and every process holds whole chunks."""
    batch, processes = context.batch, context.processes
    good = [c for c in range(processes, batch // 2 + 1, processes) if batch % c == 0]
    if chunks not in good:
        raise ValueError(
            f"chunks must divide a batch of {batch} into at least 2 images each"
            + (f" and be a multiple of {processes} processes" if processes > 1 else "")
            + f": {chunks} does not; these do: {', '.join(map(str, good)) or 'none'}"
        )


def check_fraction(fraction: float, chunk: int) -> None:
    """ValueError unless this fraction of a chunk is a whole number of images, at least 2."""
    kept = fraction * chunk
    if round(kept) < 2 or abs(kept - round(kept)) > 1e-6:
        good = [str(2.0**-k) for k in range(8) if chunk % 2**k == 0 and chunk >= 2 ** (k + 1)]
        raise ValueError(
            f"equivariance_fraction {fraction:g} is {kept:g} of the {chunk} images of a chunk: it must be a whole "
            f"number of at least 2, as with {', '.join(good)}"
        )
