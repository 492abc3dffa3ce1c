"""How an image's nearest neighbors change when its color is jittered (the paper's retrieval on Flowers-102).

The paper shows pictures of the neighbors of f(x) and of f(a(x)); this module measures them. An encoder that is
invariant to color retrieves the same images for both (overlap 1). An encoder sensitive to color retrieves
images closer to the jittered hue, and one that also encodes the class still retrieves images of this class.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from care.evaluate.retrieval.hue import Hues, hue_distance
from care.geometry import Euclidean

# Cosines are made in blocks of at most this many (64 MiB in float32).
PAIRS_AT_ONCE = 2**24

MEASURES = (
    "overlap",
    *(measure + which for measure in ("hue_distance", "class_precision") for which in ("", "_before", "_chance")),
)


@dataclass(frozen=True, eq=False)
class Retrieval:
    """The k nearest neighbors of f(x) (`before`) and of f(a(x)) (`after`), as rows of F, and measures of both.

    `overlap` is the mean of |before ∩ after| / k: 1 = the same neighbors, 0 = none in common. Each hue distance is
    between the jittered query and other images: those found for f(a(x)); with `_before`, those found for f(x); with
    `_chance`, all images except the query itself. It is a fraction of the hue circle: 0 = equal hues, 0.25 =
    unrelated hues, NaN when everything is gray. Class precision is the share of images of the query's class in the same
    three sets; None without two classes.

    `per_query` has each measure for every query, and the weight of each hue distance as `…_weight`: the measure is the
    mean over queries with these weights (equal if there are none), and so is its interval. The hue distance of a query
    with weight 0 is NaN.
    """

    before: Int[Tensor, "q k"]
    after: Int[Tensor, "q k"]
    overlap: float
    hue_distance: float
    hue_distance_before: float
    hue_distance_chance: float
    class_precision: float | None
    class_precision_before: float | None
    class_precision_chance: float | None
    per_query: dict[str, Float[Tensor, " q"]]

    def to_json(self) -> dict[str, float | None]:
        """The measures as plain numbers; None for those that do not exist."""
        values = {name: getattr(self, name) for name in MEASURES}
        return {name: None if value is None or math.isnan(value) else value for name, value in values.items()}


def neighbors(
    database: Float[Tensor, "n d"],
    queries: Float[Tensor, "m d"],
    k: int = 5,
    exclude: Int[Tensor, " m"] | None = None,
) -> Int[Tensor, "m k"]:
    """The k rows of `database` nearest to each query, nearest first, without row exclude[i] for query i.

    Embeddings are normalized, so that Euclidean distance and cosine agree: ‖x − y‖² = 2 − 2 cos(x, y).
    """
    available = len(database) - (exclude is not None)
    if not 1 <= k <= available:
        raise ValueError(f"k must be between 1 and the {available} images there are to find, got {k}")
    if exclude is not None:
        _check_rows("exclude", exclude, len(database))
    database, queries = _on_the_sphere(database), _on_the_sphere(queries)
    found = []
    for rows in torch.arange(len(queries), device=queries.device).split(max(1, PAIRS_AT_ONCE // len(database))):
        cosine = queries[rows] @ database.mT
        if exclude is not None:
            cosine.scatter_(1, exclude[rows, None], -torch.inf)
        found.append(cosine.topk(k, dim=1).indices)
    return torch.cat(found)


def retrieval_measures(
    F: Float[Tensor, "n d"],
    queries: Int[Tensor, " q"],
    F_a: Float[Tensor, "q d"],
    hues: Hues,
    query_hues: Hues,
    labels: Int[Tensor, " n"] | None = None,
    k: int = 5,
) -> Retrieval:
    """Retrieve the neighbors of some images, before and after color jitter, from F, the f(x) of all images.

    The queries are rows of F; row i of F_a is f(a(x)) for image queries[i]. No image retrieves itself. `hues` are those
    of all images, `query_hues` those of the jittered queries, both from `mean_hue`. Hue distances are averaged with
    weight strength(query) · strength(result), so that gray images do not count. The chance levels are exact expected
    values over random results.
    """
    _check_lengths(F, queries, hues, query_hues)
    _check_rows("queries", queries, len(F))
    before, after = neighbors(F, F[queries], k, queries), neighbors(F, F_a, k, queries)
    same = (before[:, :, None] == after[:, None, :]).any(2)
    per_query = {"overlap": same.float().mean(1)}
    for name, (total, weight) in {
        "hue_distance": _hue_sums(query_hues, hues.angle[after], hues.strength[after]),
        "hue_distance_before": _hue_sums(query_hues, hues.angle[before], hues.strength[before]),
        "hue_distance_chance": _hue_sums_of_others(queries, query_hues, hues),
    }.items():
        per_query |= {name: total / weight, f"{name}_weight": weight}
    if labels is not None:
        per_query |= _class_precision(labels, queries, before, after)
    means: dict[str, Any] = {name: _weighted_mean(per_query, name) for name in MEASURES}
    return Retrieval(before=before, after=after, per_query=per_query, **means)


def _on_the_sphere(points: Tensor) -> Tensor:
    if not torch.isfinite(points).all():
        raise ValueError("embeddings must be finite: they hold NaN or infinity")
    return Euclidean().embed(points.to(torch.promote_types(points.dtype, torch.float32)))


def _check_lengths(F: Tensor, queries: Tensor, hues: Hues, query_hues: Hues) -> None:
    for what, values, wanted in (("hues", hues, len(F)), ("query_hues", query_hues, len(queries))):
        if not len(values.angle) == len(values.strength) == wanted:
            raise ValueError(f"{what} must have one value for each of {wanted} images, got {len(values.angle)}")


def _check_rows(what: str, rows: Tensor, n: int) -> None:
    if len(rows) and not (rows.min() >= 0 and rows.max() < n):
        raise ValueError(f"{what} must be rows of the {n} embeddings, got {rows.min()} … {rows.max()}")


def _hue_sums(
    query_hues: Hues, angle: Float[Tensor, "q m"], strength: Float[Tensor, "q m"]
) -> tuple[Float[Tensor, " q"], Float[Tensor, " q"]]:
    """Σ w · distance and Σ w over m results of each query, with w = strength(query) · strength(result)."""
    weight = query_hues.strength[:, None] * strength
    return (weight * hue_distance(query_hues.angle[:, None], angle)).sum(1), weight.sum(1)


def _hue_sums_of_others(
    queries: Int[Tensor, " q"], query_hues: Hues, hues: Hues
) -> tuple[Float[Tensor, " q"], Float[Tensor, " q"]]:
    """The same sums over all images except the query: up to a factor, their averages for random results."""
    sums = []
    for rows in torch.arange(len(queries), device=queries.device).split(max(1, PAIRS_AT_ONCE // len(hues.angle))):
        angle, strength = (values.expand(len(rows), -1) for values in hues)
        strength = strength.scatter(1, queries[rows, None], 0)
        sums.append(_hue_sums(Hues(query_hues.angle[rows], query_hues.strength[rows]), angle, strength))
    totals, weights = zip(*sums, strict=True)
    return torch.cat(totals), torch.cat(weights)


def _class_precision(
    labels: Int[Tensor, " n"], queries: Int[Tensor, " q"], before: Int[Tensor, "q k"], after: Int[Tensor, "q k"]
) -> dict[str, Float[Tensor, " q"]]:
    """The share of images of the query's class among its results, and among all images except itself.

    Nothing for a single class: every image would be of it.
    """
    wanted = labels[queries]
    if (wanted < 0).any():
        raise ValueError("every query must have a class: choose queries with labels ≥ 0, or pass labels=None")
    sizes = torch.bincount(labels[labels >= 0])
    if (sizes > 0).sum() < 2:
        return {}
    return {
        "class_precision": (labels[after] == wanted[:, None]).float().mean(1),
        "class_precision_before": (labels[before] == wanted[:, None]).float().mean(1),
        "class_precision_chance": (sizes[wanted] - 1).float() / (len(labels) - 1),
    }


def _weighted_mean(per_query: dict[str, Tensor], name: str) -> float | None:
    if name not in per_query:
        return None
    value = per_query[name].double()
    weight = per_query.get(f"{name}_weight", torch.ones_like(value)).double()
    return float((weight * value).nansum() / weight.sum())
