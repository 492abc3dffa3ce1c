"""This image, but redder: the neighbors of R(a) f(q), which need no augmented image, beside those of f(a(q)).

Every query is an image of the bank that is searched, and does not find itself. One from outside is put behind it.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from care.augment import ImageParameters, ImagePolicy, Parameters, changed
from care.evaluate.comparison.bootstrap import Difference, paired_difference
from care.evaluate.observer import Observer
from care.evaluate.retrieval.hue import Hues, mean_hue
from care.evaluate.retrieval.neighbors import retrieval_measures
from care.randomness import generator_for
from care.steer.steering import Steering

IDENTITY, STEERING, AUGMENTED, CHANCE = "identity", "steering", "augmented", "chance"
WAYS = (IDENTITY, STEERING, AUGMENTED)
MEASURES = ("overlap", "hue_distance", "class_precision")


@dataclass(frozen=True, eq=False)
class SteeredRetrieval:
    """The k nearest of f(q) ("identity"), R(a) f(q) ("steering") and f(a(q)) ("augmented"), as rows of the bank, and
    for each a number per query whose mean is

    overlap           the share of the neighbors of f(a(q)) among them
    hue_distance      how far their hues are from that of a(q), in turns, gray images counting less; NaN where all are
    class_precision   the share of images of the query's class; left out where it is not known

    "chance" has what random images of the bank have on average.
    """

    found: Mapping[str, Int[Tensor, "q k"]]
    units: Mapping[str, Mapping[str, Float[Tensor, " q"]]]

    def mean(self, measure: str, way: str) -> Difference:
        """The mean over queries with its 95 % interval."""
        units = self.units[measure][way]
        return paired_difference(torch.zeros_like(units), units)

    def gain(self, measure: str) -> Difference:
        """Steering less identity, query by query, with its 95 % interval."""
        return paired_difference(self.units[measure][IDENTITY], self.units[measure][STEERING])


def steered_retrieval(
    F: Float[Tensor, "n d"],
    queries: Int[Tensor, " q"],
    steered: Float[Tensor, "q d"],
    augmented: Float[Tensor, "q d"],
    hues: Hues,
    query_hues: Hues,
    labels: Int[Tensor, " n"] | None = None,
    k: int = 5,
) -> SteeredRetrieval:
    """Look among F, the f(x) of all images, for the neighbors of some of them, of where they were steered to, and of
    where they really are when augmented. `hues` are those of all images, `query_hues` those of the augmented queries.
    """
    really = retrieval_measures(F, queries, augmented, hues, query_hues, labels, k)
    turned = retrieval_measures(F, queries, steered, hues, query_hues, labels, k)
    found = {IDENTITY: really.before, STEERING: turned.after, AUGMENTED: really.after}
    overlap = {way: (rows[:, :, None] == really.after[:, None]).any(2).double().mean(1) for way, rows in found.items()}
    units = {"overlap": overlap | {CHANCE: torch.full_like(overlap[IDENTITY], k / (len(F) - 1))}}
    for measure in MEASURES[1:] if labels is not None else MEASURES[1:2]:
        ways = {
            IDENTITY: (really, "_before"),
            STEERING: (turned, ""),
            AUGMENTED: (really, ""),
            CHANCE: (really, "_chance"),
        }
        units[measure] = {way: _units(asked.per_query, measure + which) for way, (asked, which) in ways.items()}
    return SteeredRetrieval(found, units)


@dataclass(frozen=True, eq=False)
class Bank:
    """The images that are searched: f(x), the hue of every view, and the class, −1 where it is not known."""

    F: Float[Tensor, "n d"]
    hues: Hues
    labels: Int[Tensor, " n"]

    def followed_by(self, other: "Bank") -> "Bank":
        """The images of both, those of the other one behind."""
        hues = Hues(*(torch.cat(pair) for pair in zip(self.hues, other.hues, strict=True)))
        return Bank(torch.cat([self.F, other.F]), hues, torch.cat([self.labels, other.labels]))


def bank_of(observer: Observer, output: str) -> Bank:
    """The observer's images, as they are."""
    still = observer.policy.unchanged(1, observer.samples.source)  # type: ignore[arg-type]
    F, labels = observer.points(observer.augmented(still))[output], observer.samples.labels
    return Bank(F, _hues(observer, still), labels.to(F.device))


def augmentation_of(observer: Observer, changes: Mapping[str, float]) -> ImageParameters:
    """One augmentation of the observer's images by `changes` (`care.augment.read_changes`), a blur with the policy's
    kernel. ValueError if it changes nothing.
    """
    policy = observer.policy
    if not isinstance(policy, ImagePolicy):
        raise ValueError("changes by name are for images: point clouds have neither hue nor brightness")
    still = policy.unchanged(1, observer.samples.source)  # type: ignore[arg-type]
    still = dataclasses.replace(still, kernel_size=policy.kernel_size)
    a = changed(still, changes)
    if a.describe(0) == still.describe(0):
        raise ValueError("these changes change nothing: a factor of 1 does not, and the whole picture cannot be moved")
    return a


def ask(
    bank: Bank, rows: Int[Tensor, " q"], asked: Observer, output: str, steering: Steering, a: ImageParameters, k: int
) -> SteeredRetrieval:
    """Look in the bank with the images at `rows`, which are those of the observer `asked`, and one augmentation."""
    rows = rows.to(bank.F.device)
    labels = bank.labels if (bank.labels[rows] >= 0).all() else None
    steered = steering.to(bank.F.device).turn(bank.F[rows], a)
    augmented = asked.points(asked.augmented(a))[output]
    return steered_retrieval(bank.F, rows, steered, augmented, bank.hues, _hues(asked, a), labels, k)


def some_rows(bank: Bank, count: int, seed: int) -> Int[Tensor, " q"]:
    """At most `count` images to ask with, drawn from those that have a class, or from all if none has."""
    known = (bank.labels >= 0).nonzero()[:, 0].cpu()
    rows = known if len(known) else torch.arange(len(bank.labels))
    return rows[torch.randperm(len(rows), generator=generator_for("cpu", seed, "queries"))[:count]]


def _hues(observer: Observer, a: Parameters) -> Hues:
    """The mean hue of every image under one augmentation."""
    looking = dataclasses.replace(observer, embed=lambda views: {"hue": torch.stack(mean_hue(views), dim=1)})
    return Hues(*looking.augmented(a)["hue"].unbind(1))


def _units(per_query: Mapping[str, Tensor], name: str) -> Float[Tensor, " q"]:
    """A number per query whose mean is the weighted mean, and which, to first order, vary around it as it does."""
    value = per_query[name].double()
    weight = per_query.get(f"{name}_weight", torch.ones_like(value)).double()
    mean = (weight * value).nansum() / weight.sum()
    return mean + (weight * (value - mean)).nan_to_num() / weight.mean()
