"""`care bench` on a GPU, at the smallest sizes, without compiling."""

import pytest

from gpu.commands import TINY, alone, check_record, run

pytestmark = pytest.mark.gpu


def bench(gpu, folder, *words):
    """The rows of the one part that is measured."""
    run(gpu, "bench", *words, *TINY, "--no-compile", "--out", folder / "bench.json")
    record = check_record(folder / "bench.json")
    assert bool(record["machine"]["gpu"]) == (gpu == "cuda")
    (table,) = record["tables"].values()
    return table["rows"]


def test_train(gpu, tmp_path):
    rows = bench(gpu, tmp_path, "train")
    assert all((row["memory_mb"] is not None) == (gpu == "cuda") for row in rows)


@pytest.mark.parametrize("size", [32, 96])
def test_augment(size, gpu, tmp_path):
    names = [row["name"] for row in bench(gpu, tmp_path, "augment", "--size", size)]
    assert ("care, fused kernels" in names) == (gpu == "cuda")


def test_loader(gpu, tmp_path):
    _, *rows = bench(gpu, tmp_path, "loader")
    assert all(("waiting_share" in row) == (gpu == "cuda") for row in rows)
    assert any(row["name"].endswith("JPEG files, decoded by the GPU") for row in rows) == (gpu == "cuda")


def test_photos(gpu, tmp_path):
    alone, *fed = bench(gpu, tmp_path, "photos")
    assert 0 < alone["views_share"] < 1
    assert any(row["name"].endswith("JPEG files, decoded by the GPU") for row in fed) == (gpu == "cuda")
    assert all(0 <= row["waiting_share"] < 1 for row in fed)


def test_methods(gpu, tmp_path):
    rows = bench(gpu, tmp_path, "methods", "--only", "augself", "--only", "byol")
    assert [row["name"] for row in rows] == ["byol", "augself"]
    assert all(row["of_simclr"] > 0 for row in rows)


def test_scaling(gpu, tmp_path):
    _, said = alone("bench", "scaling", *TINY, "--no-compile", "--device", gpu, "--out", tmp_path / "bench.json")
    assert "scaling: 1 process: first step after" in said
    check_record(tmp_path / "bench.json")
