"""Steered retrieval: the neighbors of R(a) f(q), which need no augmented image, compared with those of f(a(q)).

Every query is an image of the searched database and is excluded from its own neighbors. An external query is appended
to the database.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from care.augment import ImageParameters, ImagePolicy, Parameters, changed
from care.evaluate.comparison.paired import Difference, paired_difference
from care.evaluate.decoding.r2 import weighted_units
from care.evaluate.embedder import Embedder
from care.evaluate.retrieval.hue import Hues, mean_hue
from care.evaluate.retrieval.neighbors import retrieval_measures
from care.randomness import generator_for
from care.steer.learned_rotation import LearnedRotation

IDENTITY, LEARNED, AUGMENTED, CHANCE = "identity", "learned_rotation", "augmented", "chance"
WAYS = (IDENTITY, LEARNED, AUGMENTED)
MEASURES = ("overlap", "hue_distance", "class_precision")


@dataclass(frozen=True, eq=False)
class SteeredRetrieval:
    """The k nearest `neighbors` of f(q) ("identity"), R(a) f(q) ("learned_rotation") and f(a(q)) ("augmented"), as rows
    of the database, and `units`: for each measure and way, one number per query, whose mean is the measure.

    overlap           the share of these neighbors that are also neighbors of f(a(q)): 1 = the same, 0 = none
    hue_distance      the distance of their hues to that of a(q), as a fraction of the hue circle, weighted by the
                      strength of both hues; NaN if all are gray
    class_precision   the share of images of the query's class; left out if it is unknown, or that of all images

    "chance" has the expected values for random images of the database.
    """

    neighbors: Mapping[str, Int[Tensor, "q k"]]
    units: Mapping[str, Mapping[str, Float[Tensor, " q"]]]

    def mean(self, measure: str, way: str) -> Difference:
        """The mean over queries with its 95 % interval."""
        units = self.units[measure][way]
        return paired_difference(torch.zeros_like(units), units)

    def gain(self, measure: str) -> Difference:
        """The learned rotation minus the identity, query by query, with its 95 % interval."""
        return paired_difference(self.units[measure][IDENTITY], self.units[measure][LEARNED])


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
    """Search F, the f(x) of all images, for the neighbors of f(q), R(a) f(q) and f(a(q)).

    The queries are F[queries], with `steered` = R(a) f(q) and `augmented` = f(a(q)). `hues` are those of all images,
    `query_hues` those of the augmented queries.
    """
    truth = retrieval_measures(F, queries, augmented, hues, query_hues, labels, k)
    rotated = retrieval_measures(F, queries, steered, hues, query_hues, labels, k)
    found = {IDENTITY: truth.before, LEARNED: rotated.after, AUGMENTED: truth.after}
    overlap = {way: (rows[:, :, None] == truth.after[:, None]).any(2).double().mean(1) for way, rows in found.items()}
    units = {"overlap": overlap | {CHANCE: torch.full_like(overlap[IDENTITY], k / (len(F) - 1))}}
    for measure in MEASURES[1:2] if truth.class_precision is None else MEASURES[1:]:
        ways = {
            IDENTITY: (truth, "_before"),
            LEARNED: (rotated, ""),
            AUGMENTED: (truth, ""),
            CHANCE: (truth, "_chance"),
        }
        units[measure] = {way: _units(measured.per_query, measure + which) for way, (measured, which) in ways.items()}
    return SteeredRetrieval(found, units)


@dataclass(frozen=True, eq=False)
class Database:
    """The images that are searched: f(x), the hue of every view, and the class (−1 if unknown)."""

    F: Float[Tensor, "n d"]
    hues: Hues
    labels: Int[Tensor, " n"]

    def followed_by(self, other: "Database") -> "Database":
        """The images of both, those of `other` last."""
        hues = Hues(*(torch.cat(pair) for pair in zip(self.hues, other.hues, strict=True)))
        return Database(torch.cat([self.F, other.F]), hues, torch.cat([self.labels, other.labels]))


def embed_database(embedder: Embedder, output: str) -> Database:
    """The database of the embedder's images without augmentation."""
    unchanged = embedder.policy.unchanged(1, embedder.samples.input_shape)  # type: ignore[arg-type]
    F, labels = embedder.points(embedder.clean())[output], embedder.samples.labels
    return Database(F, _hues(embedder, unchanged), labels.to(F.device))


def augmentation_of(embedder: Embedder, changes: Mapping[str, float]) -> ImageParameters:
    """One augmentation of the embedder's images by `changes` (`care.augment.read_changes`).

    A blur uses the policy's kernel. ValueError if the changes have no effect.
    """
    policy = embedder.policy
    if not isinstance(policy, ImagePolicy):
        raise ValueError("changes by name are for images: point clouds have neither hue nor brightness")
    unchanged = policy.unchanged(1, embedder.samples.input_shape)  # type: ignore[arg-type]
    unchanged = dataclasses.replace(unchanged, kernel_size=policy.kernel_size)
    a = changed(unchanged, changes)
    if a.describe(0) == unchanged.describe(0):
        raise ValueError("these changes have no effect: a factor of 1 has none, nor can the whole picture be shifted")
    return a


def search(
    database: Database,
    rows: Int[Tensor, " q"],
    queries: Embedder,
    output: str,
    rotation: LearnedRotation,
    a: ImageParameters,
    k: int,
) -> SteeredRetrieval:
    """Search the database with the images at `rows`, which are the samples of `queries`, under one augmentation a."""
    rows = rows.to(database.F.device)
    labels = database.labels if (database.labels[rows] >= 0).all() else None
    steered = rotation.to(database.F.device).rotate(database.F[rows], a)
    augmented = queries.points(queries.augmented(a))[output]
    return steered_retrieval(database.F, rows, steered, augmented, database.hues, _hues(queries, a), labels, k)


def draw_queries(database: Database, count: int, seed: int) -> Int[Tensor, " q"]:
    """At most `count` queries, drawn from the images that have a class, or from all if none has."""
    known = (database.labels >= 0).nonzero()[:, 0].cpu()
    rows = known if len(known) else torch.arange(len(database.labels))
    return rows[torch.randperm(len(rows), generator=generator_for("cpu", seed, "queries"))[:count]]


def _hues(embedder: Embedder, a: Parameters) -> Hues:
    """The mean hue of every image under one augmentation."""
    looking = dataclasses.replace(embedder, embed=lambda views: {"hue": torch.stack(mean_hue(views), dim=1)})
    return Hues(*looking.augmented(a)["hue"].unbind(1))


def _units(per_query: Mapping[str, Tensor], name: str) -> Float[Tensor, " q"]:
    """One number per query; their mean is the measure."""
    return weighted_units(per_query[name], per_query.get(f"{name}_weight", torch.ones_like(per_query[name])))
