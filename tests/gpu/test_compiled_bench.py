"""`care bench` as it is by default on a GPU: compiled, in processes of its own."""

import pytest

from gpu.commands import TINY, alone, check_record

pytestmark = pytest.mark.gpu

SAID = {
    "train": "train: test_resnet at 32 px, CARE: first step after",
    "augment": "augment: care, compiled: first call after",
    "start": "start: filled compiler cache: imported after",
}


@pytest.mark.parametrize("part", SAID)
def test_it_measures_what_is_compiled(part, gpu, tmp_path):
    _, said = alone("bench", part, *TINY, "--compile", "--device", gpu, "--out", tmp_path / "bench.json")
    assert SAID[part] in said
    record = check_record(tmp_path / "bench.json")
    assert record["settings"]["compile"]
    assert bool(record["machine"]["gpu"]) == (gpu == "cuda")
