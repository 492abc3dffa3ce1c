"""One query and many, searched under one augmentation: what `care retrieve` does, for any embedder."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from care.augment import ImagePolicy
from care.evaluate.embedder import Embedder
from care.progress import ProgressCallback, silent
from care.steer.learned_rotation import LearnedRotation
from care.steer.retrieved import RetrievalResult, rotation_caveats
from care.steer.retrieving import Database, SteeredRetrieval, augmentation_of, draw_queries, embed_database, search

GRAY_LEVELS_APART = 1  # of 256, on average: a store and a file may be decoded at different scales


@dataclass(frozen=True)
class Query:
    """One image to find neighbors of: an embedder of it alone, and its number among the images searched, if known."""

    name: str
    embedder: Embedder
    number: int | None = None


def retrieve(
    images: Embedder,
    query: Query,
    rotation: LearnedRotation,
    changes: Mapping[str, float],
    *,
    title: str,
    split: str = "",
    k: int = 5,
    queries: int = 500,
    seed: int = 0,
    progress: ProgressCallback = silent,
) -> RetrievalResult:
    """Search `images` for the neighbors of f(q), R(a) f(q) and f(a(q)): for the query, and for `queries` drawn images.

    a makes the `changes` (`care.augment.read_changes`). `title` names the model, and `split` the images: R(a) may have
    been fitted to those of the split "train".
    """
    a, policy, output = augmentation_of(images, changes), images.policy, rotation.output
    assert isinstance(policy, ImagePolicy)  # or there would be no augmentation by changes
    database = embed_database(images, output)
    progress("images embedded", 1, 1)
    rows = draw_queries(database, queries, seed)
    many = search(database, rows, images.take(rows), output, rotation, a, k)
    one = _search_one(images, database, query, rotation, changes, k)
    about = (title, output, a.describe(0), query.name, len(images.samples), k, len(rows))
    return RetrievalResult(*about, one, many, rotation_caveats(rotation, policy, a, split))


def _search_one(
    images: Embedder,
    database: Database,
    query: Query,
    rotation: LearnedRotation,
    changes: Mapping[str, float],
    k: int,
) -> SteeredRetrieval:
    """Search with the query, which is put behind the images unless it is one of them."""
    number = query.number
    if number is None:
        embedded = embed_database(query.embedder, rotation.output)
        number = find_image(images, database, query.embedder, embedded)
        database = database if number is not None else database.followed_by(embedded)
    row = torch.tensor([len(database.F) - 1 if number is None else number])
    a = augmentation_of(query.embedder, changes)
    return search(database, row, query.embedder, rotation.output, rotation, a, k)


def find_image(images: Embedder, database: Database, query: Embedder, embedded: Database) -> int | None:
    """The number of the query among the images, if it is one of them: it must not count as its own neighbor.

    It is the image with the nearest embedding, if their pixels agree but for decoding. A query from a file is cut to a
    square, so it is never found among images that are not square.
    """
    nearest = int((database.F @ embedded.F[0]).argmax())
    found, asked = images.samples.take(torch.tensor([nearest])).inputs.cpu(), query.samples.inputs.cpu()
    same = found.shape == asked.shape and (found.float() - asked.float()).abs().mean() < GRAY_LEVELS_APART
    return nearest if same else None
