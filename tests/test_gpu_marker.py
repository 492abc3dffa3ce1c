"""The GPU tests: one mark, what importing them takes, and the record of a run of them."""

import ast
import json
from pathlib import Path

import pytest

from gpu.record import make_record, row, write_record

TESTS = Path(__file__).parent
OTHERS = sorted(set(TESTS.rglob("*.py")) - {Path(__file__)})
MARKED = [file for file in OTHERS if file.name.startswith("test_") and "mark.gpu" in file.read_text()]
# What a machine with a GPU need not have: other tests compare with it.
MISSING = {"hypothesis", "scipy", "sklearn", "pytorch_metric_learning", "onnx", "onnxruntime", "tensorboard"}


def imported(file, seen):
    """The packages that importing a test file imports, through the files of the tests that it imports in turn."""
    for node in ast.parse(file.read_text()).body:
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        for name in [*names, node.module] if isinstance(node, ast.ImportFrom) else names:
            yield name.partition(".")[0]
            own = [place / f"{name.replace('.', '/')}.py" for place in (TESTS, file.parent)]
            for other in {path for path in own if path.exists()} - seen:
                seen.add(other)
                yield from imported(other, seen)


@pytest.mark.parametrize("file", MARKED, ids=lambda file: str(file.relative_to(TESTS)))
def test_importing_needs_nothing_but_what_care_needs(file):
    conftests = [folder / "conftest.py" for folder in file.parents if folder.is_relative_to(TESTS)]
    for path in [file, *(path for path in conftests if path.exists())]:
        assert not set(imported(path, set())) & MISSING


def test_the_mark_alone_says_that_a_gpu_is_needed():
    assert len(MARKED) >= 8
    asking = [str(file.relative_to(TESTS)) for file in OTHERS if "cuda.is_available" in file.read_text()]
    assert asking == ["conftest.py", "gpu/record.py"]


def test_a_record_is_a_row_of_the_table_in_the_docs(tmp_path):
    record = make_record({"passed": 5, "failed": 1, "error": 2, "skipped": 3}, 61.6)
    written = write_record(record, tmp_path / "record.json")
    assert json.loads((tmp_path / "record.json").read_text()) == {**record, "row": written}
    assert written == row(record)
    assert written.endswith("| 5 | 3 | 3 | 62 |")
    lines = (TESTS.parent / "docs" / "reliability.md").read_text().splitlines()
    (heading,) = (line for line in lines if line.startswith("| date | commit |"))
    rows = lines[lines.index(heading) + 2 :]
    assert rows[0].count("|") == heading.count("|") == written.count("|")
