import json
import math

import pytest
import torch
from sklearn.neighbors import NearestNeighbors

from care.data import generate_shapes
from care.evaluate.retrieval import neighbors as module
from care.evaluate.retrieval.hue import Hues, mean_hue
from care.evaluate.retrieval.neighbors import neighbors, retrieval_measures


def random_hues(n, generator):
    return Hues(*torch.rand(2, n, generator=generator, dtype=torch.float64))


@pytest.fixture
def problem(generator):
    F = torch.randn(40, 6, generator=generator, dtype=torch.float64)
    queries = torch.randperm(40, generator=generator)[:9]
    F_a = F[queries] + torch.randn(9, 6, generator=generator, dtype=torch.float64)
    labels = torch.randint(-1, 3, (40,), generator=generator)
    labels[queries] = torch.randint(3, (9,), generator=generator)
    return {
        "F": F,
        "queries": queries,
        "F_a": F_a,
        "hues": random_hues(40, generator),
        "query_hues": random_hues(9, generator),
        "labels": labels,
    }


@pytest.mark.parametrize("block", [1, 1000, 2**24])
def test_neighbors_agree_with_scikit_learn(block, generator, monkeypatch):
    monkeypatch.setattr(module, "PAIRS_AT_ONCE", block)
    database = torch.randn(50, 4, generator=generator, dtype=torch.float64)
    queries = torch.randn(70, 4, generator=generator, dtype=torch.float64)
    unit = torch.nn.functional.normalize(database)
    theirs = NearestNeighbors(n_neighbors=7, metric="euclidean", algorithm="brute").fit(unit.numpy())
    found = theirs.kneighbors(torch.nn.functional.normalize(queries).numpy(), return_distance=False)
    assert neighbors(database, queries, k=7).tolist() == found.tolist()
    exclude = torch.from_numpy(found[:, 3])
    without = [[j for j in row if j != row[3]] for row in found.tolist()]
    assert neighbors(database, queries, k=6, exclude=exclude).tolist() == without


def test_an_image_is_its_own_neighbor_unless_left_out(generator):
    F = torch.randn(30, 5, generator=generator)
    rows = torch.arange(30)
    assert (neighbors(F, F, k=1)[:, 0] == rows).all()
    assert not (neighbors(F, F, k=29, exclude=rows) == rows[:, None]).any()


def literal(p, k):
    """Every measure by the letter, one query and one result at a time."""
    n = len(p["F"])
    unit = [torch.nn.functional.normalize(F, dim=1) for F in (p["F"], p["F_a"])]
    sums = {name: [0.0, 0.0] for name in module.MEASURES}

    def add(name, value, weight=1.0):
        sums[name][0] += weight * value
        sums[name][1] += weight

    for i, x in enumerate(p["queries"].tolist()):
        others = [j for j in range(n) if j != x]
        before = sorted(others, key=lambda j: float((unit[0][j] - unit[0][x]).norm()))[:k]
        after = sorted(others, key=lambda j: float((unit[0][j] - unit[1][i]).norm()))[:k]
        add("overlap", len(set(before) & set(after)) / k)
        for suffix, results in (("", after), ("_before", before), ("_chance", others)):
            for j in results:
                fraction = float(p["query_hues"].angle[i] - p["hues"].angle[j])
                distance = math.acos(math.cos(2 * math.pi * fraction)) / (2 * math.pi)
                add("hue_distance" + suffix, distance, float(p["query_hues"].strength[i] * p["hues"].strength[j]))
                add("class_precision" + suffix, float(p["labels"][j] == p["labels"][x]))
    return {name: total / weight for name, (total, weight) in sums.items()}


@pytest.mark.parametrize("block", [50, 2**24])
@pytest.mark.parametrize("k", [1, 5])
def test_measures_agree_with_the_literal_loop(k, block, problem, monkeypatch):
    monkeypatch.setattr(module, "PAIRS_AT_ONCE", block)
    result = retrieval_measures(**problem, k=k)
    assert result.to_json() == pytest.approx(literal(problem, k), abs=1e-6)
    assert json.loads(json.dumps(result.to_json(), allow_nan=False)) == result.to_json()


def test_the_mean_over_queries_is_the_measure(problem):
    result = retrieval_measures(**problem)
    for name, value in result.to_json().items():
        weight = result.per_query.get(f"{name}_weight", torch.ones(9))
        assert (result.per_query[name] * weight).sum() / weight.sum() == pytest.approx(value)


def test_a_gray_query_has_no_say(problem):
    rows = torch.arange(1, 9)
    without = {name: problem[name][rows] for name in ("queries", "F_a")}
    without["query_hues"] = Hues(*(values[rows] for values in problem["query_hues"]))
    problem["query_hues"].strength[0] = 0
    all_queries, others = retrieval_measures(**problem), retrieval_measures(**problem | without)
    for name in ("hue_distance", "hue_distance_before", "hue_distance_chance"):
        assert getattr(all_queries, name) == pytest.approx(getattr(others, name))
        assert all_queries.per_query[name].isnan().tolist() == [True] + 8 * [False]


def test_no_labels_and_gray_queries(problem):
    gray = Hues(problem["query_hues"].angle, torch.zeros(9, dtype=torch.float64))
    result = retrieval_measures(**problem | {"labels": None, "query_hues": gray})
    assert result.class_precision is result.class_precision_before is result.class_precision_chance is None
    assert math.isnan(result.hue_distance)
    assert result.to_json() == {name: result.overlap if name == "overlap" else None for name in module.MEASURES}


def test_a_single_class_has_no_precision_to_speak_of(problem):
    """Every image found would be of the query's class, whatever the embeddings are."""
    one = problem["labels"].clamp(max=0)  # and images without a class
    assert retrieval_measures(**problem | {"labels": one}).class_precision is None
    one[next(i for i in range(40) if i not in problem["queries"])] = 1
    assert retrieval_measures(**problem | {"labels": one}).class_precision is not None


def test_color_blind_and_color_sensitive_encoders_are_told_apart():
    """Planted: an encoder of the class alone, and one of class and mean hue, with hues shifted by a third."""
    shapes = generate_shapes(400, seed=3, size=16)
    hues, queries = mean_hue(shapes.images), torch.arange(60)
    jittered = shapes.images[queries].roll(1, dims=1)  # red becomes green becomes blue
    one_hot = torch.nn.functional.one_hot(shapes.labels).float()
    # Images of one class would all be tied: something color-blind separates them.
    brightness = shapes.images.float().mean((1, 2, 3))[:, None] / 255

    def color(hues):
        angle = 2 * math.pi * hues.angle
        return 0.5 * torch.stack([angle.cos(), angle.sin()], dim=1)

    blind = torch.cat([one_hot, brightness], dim=1)
    seeing = torch.cat([one_hot, color(hues)], dim=1)
    shifted = torch.cat([one_hot[queries], color(mean_hue(jittered))], dim=1)
    common = {"queries": queries, "hues": hues, "query_hues": mean_hue(jittered), "labels": shapes.labels}
    invariant = retrieval_measures(blind, F_a=blind[queries], **common)
    assert invariant.overlap == 1
    assert invariant.hue_distance == invariant.hue_distance_before
    assert abs(invariant.hue_distance - invariant.hue_distance_chance) < 0.05
    sensitive = retrieval_measures(seeing, F_a=shifted, **common)
    assert sensitive.overlap < 0.1
    assert sensitive.hue_distance < 0.05 < 0.28 < sensitive.hue_distance_before
    assert sensitive.class_precision == 1
    assert sensitive.class_precision_chance == pytest.approx(39 / 399)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"k": 40}, "k must be between 1 and the 39 images"),
        ({"queries": torch.full((9,), 40)}, "queries must be rows of the 40 embeddings"),
        ({"labels": torch.full((40,), -1)}, "every query must have a class"),
        ({"query_hues": Hues(torch.zeros(1), torch.zeros(1))}, "query_hues must have one value for each of 9"),
        ({"F_a": torch.full((9, 6), torch.nan)}, "must be finite"),
    ],
)
def test_mistakes_are_explained(change, message, problem, unchecked):
    with pytest.raises(ValueError, match=message):
        retrieval_measures(**problem | change)
