"""Imports follow one direction, so that what is pure stays pure."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "care"

# What each part may import from. What it may import from may in turn rest on more; nothing else is allowed.
MAY_IMPORT = {
    "atomic_files": set(),
    "tables": set(),
    "progress": set(),
    "provenance": set(),
    "randomness": set(),
    "whole_pictures": set(),
    "frozen": set(),
    "suggestions": set(),
    "geometry": set(),
    "augment": {"randomness", "suggestions"},
    "data": {"progress", "atomic_files", "randomness", "suggestions", "whole_pictures"},
    "models": {"frozen", "suggestions"},
    "losses": {"geometry"},
    "objective": {"suggestions", "whole_pictures", "augment", "models"},
    "methods": {"geometry", "losses", "augment", "models", "objective"},
    "report": {"augment", "geometry"},
    "evaluate": {"progress", "atomic_files", "randomness", "frozen", "tables", "geometry", "augment", "data", "report"},
    "steer": {"progress", "atomic_files", "randomness", "tables", "geometry", "augment", "evaluate", "report"},
    "explore": {"progress", "tables", "geometry", "augment", "data", "evaluate", "steer"},
    "train": {
        "progress",
        "atomic_files",
        "frozen",
        "randomness",
        "suggestions",
        "tables",
        "geometry",
        "losses",
        "augment",
        "data",
        "models",
        "objective",
        "evaluate",
    },
    "pretraining": {"progress", "data", "models", "objective", "report", "train"},
    "export": {"atomic_files", "data", "evaluate", "models", "objective", "train"},
    "pretrained": {"tables", "geometry", "data", "models", "objective", "evaluate", "train"},
    "demo": {
        "progress",
        "atomic_files",
        "frozen",
        "tables",
        "augment",
        "data",
        "evaluate",
        "report",
        "train",
        "pretrained",
    },
    "reproduce": {
        "progress",
        "atomic_files",
        "provenance",
        "suggestions",
        "tables",
        "geometry",
        "augment",
        "data",
        "losses",
        "objective",
        "evaluate",
        "report",
        "train",
        "pretrained",
    },
    "bench": {"suggestions", "tables", "augment", "data", "losses", "objective", "train"},
    "cli": {
        "progress",
        "bench",
        "provenance",
        "reproduce",
        "atomic_files",
        "tables",
        "export",
        "pretrained",
        "pretraining",
        "geometry",
        "augment",
        "data",
        "demo",
        "evaluate",
        "explore",
        "objective",
        "report",
        "steer",
        "train",
    },
    "__main__": {"cli"},
    "__init__": {"geometry", "losses", "augment", "evaluate", "pretraining", "train"},
}


def part_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_parts(path: Path, source: str) -> set[str]:
    """The parts of care that a file imports, wherever in the file it does."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide the direction"
            modules = [f"care.{alias.name}" for alias in node.names] if node.module == "care" else [node.module]
        elif isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        else:
            continue
        found |= {module.split(".")[1] for module in modules if module.startswith("care.")}
    return found


def test_imports_follow_the_direction():
    """Of all files at once: as a test for each, they take ten times as long."""
    astray = {}
    for path in SOURCE.rglob("*.py"):
        part = part_of(path)
        assert part in MAY_IMPORT, f"{part} is new: say here what it may import"
        if found := imported_parts(path, path.read_text()) - MAY_IMPORT[part] - {part, "__version__"}:
            astray[str(path.relative_to(SOURCE))] = sorted(found)
    assert not astray, "these files must not import from these parts"


def test_the_direction_has_no_circle():
    done: set[str] = set()
    while len(done) < len(MAY_IMPORT):
        ready = {part for part, needs in MAY_IMPORT.items() if part not in done and needs <= done}
        assert ready, "the parts left import each other in a circle"
        done |= ready


def test_a_stray_import_is_seen():
    path = SOURCE / "geometry" / "measures.py"
    assert imported_parts(path, "def f():\n    from care.losses import info_nce") == {"losses"}
    assert imported_parts(path, "from care import augment\nimport care.cli.demo") == {"augment", "cli"}


@pytest.mark.parametrize("part", ["geometry", "losses", "augment"])
def test_the_core_knows_no_devices_ranks_or_files(part):
    """No process groups, no files, no CUDA calls, no global random state in the pure parts, but for a GPU's kernel."""
    for path in set((SOURCE / part).rglob("*.py")) - {SOURCE / "augment" / "fused.py"}:
        text = path.read_text()
        for word in ("torch.distributed", "torch.cuda", "manual_seed", "open(", "get_rank"):
            assert word not in text, f"{path.name} mentions {word}"
