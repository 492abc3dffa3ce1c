"""`care bench methods`: which rows there are, and what each is compared with."""

import json

import pytest
from typer.testing import CliRunner

from care.bench import default_settings
from care.bench.methods import _slow, along, around, chosen_methods
from care.cli import app
from care.objective.registry import REGISTERED
from care.train import default_config
from care.train.default_values import HEAD

TINY = ["--device", "cpu", "--model", "small_resnet", "--batch-size", "8", "--size", "16", "--seconds", "0.001"]


def bench(*words, code=0):
    result = CliRunner().invoke(app, ["bench", "methods", *TINY, *words], env={"NO_COLOR": "1", "COLUMNS": "300"})
    assert result.exit_code == code, result.output
    return result


def test_a_row_for_all_that_is_registered():
    rows = chosen_methods(())
    assert rows["byol"] == {"method": "byol"}
    assert rows["equimod"] == {"equivariance": "equimod"}
    assert set(rows) == {name for names in REGISTERED.values() for name in names}
    assert list(chosen_methods(("stl", "dcl"))) == ["dcl", "stl"]


def test_views_are_those_that_a_step_costs():
    """CARE sees four, E-SSL four of a quarter of the pixels beside two; BYOL's teacher sees both, one way."""
    settings = default_settings("cpu", batch_size=8, size=16)
    costs = {"simclr": 2, "care": 4, "essl": 3, "looc": 3, "augself": 2, "mocov2": 1 + 1 / 3, "byol": 2 + 2 / 3}
    for name, cost in costs.items():
        assert settings.config(**chosen_methods((name,))[name]).views_a_step == pytest.approx(cost)


def test_a_method_is_timed_with_its_own_head():
    """VICReg's is three layers of 2,048, which take longer than SimCLR's."""
    settings = default_settings("cpu", model="resnet18")
    for name, found in chosen_methods(()).items():
        trained = default_config("cifar10", model="resnet18", **found)
        ours = settings.config(**found)
        assert [getattr(ours, part) for part in HEAD] == [getattr(trained, part) for part in HEAD], name
    assert settings.config(method="vicreg").head_width == 2048


@pytest.mark.parametrize(
    ("views", "needed", "seconds"),
    [(2, (2,), 1.0), (3.0, (3,), 1.6), (4, (4,), 1.8), (2.5, (2, 3), 1.3), (1.5, (2, 3), 0.7), (5, (3, 4), 2.0)],
)
def test_simclr_with_as_many_views_is_on_the_line_through_the_nearest(views, needed, seconds):
    assert around(views) == needed
    assert along({2: 1.0, 3: 1.6, 4: 1.8}, views) == pytest.approx(seconds)


def test_rows_are_compared_with_simclr_of_as_many_views(tmp_path):
    out = tmp_path / "bench.json"
    result = bench("--only", "augself", "--only", "simsiam", "--out", str(out))
    table = json.loads(out.read_text())["tables"]["methods"]
    simsiam, augself = table["rows"]
    assert [simsiam["name"], augself["name"]] == ["simsiam", "augself"]
    assert simsiam["as_many_views"] == augself["as_many_views"]
    for row in (simsiam, augself):
        assert row["views"] == 2
        assert row["of_simclr"] == pytest.approx(row["samples_per_second"] / row["as_many_views"])
        assert row["samples_per_second"] == pytest.approx(8e3 / row["ms_per_step"])
        assert f"{row['of_simclr']:.2f}" in result.stdout
    said = [line.split(" s  ", 1)[1] for line in result.stderr.splitlines()]
    assert [line for line in said if line.endswith("building …")] == [
        f"methods: {name}: building …" for name in ("simclr, 2 views", "simsiam", "augself")
    ]


def test_what_costs_more_than_its_views_is_named():
    rows = [{"name": "a", "of_simclr": 0.79}, {"name": "b", "of_simclr": 0.81}]
    assert _slow(rows) == "Slower than 0.8 of SimCLR: a (0.79)."
    assert _slow(rows[1:]) == "Slower than 0.8 of SimCLR: none."


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--only", "augsefl"], "no method or equivariance is called 'augsefl'; did you mean augself?"),
        (
            ["--only", "stl", "--batch-size", "9", "--images", "20"],
            "stl pairs images: each process needs an even number",
        ),
    ],
)
def test_mistakes_are_told_before_anything_is_measured(words, message, tmp_path):
    result = bench(*words, "--out", str(tmp_path / "bench.json"), code=2)
    assert message in result.output
    assert not list(tmp_path.iterdir())
