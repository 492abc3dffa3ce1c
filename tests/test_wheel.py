"""The wheel and the source distribution hold what they should, built by the build backend itself, without a network."""

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("hatchling")
ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=120)
    return folder


def in_folder(name):
    """All files below a folder of the project that are not made by running it."""
    files = (path for path in (ROOT / name).rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(ROOT).as_posix() for path in files}


def test_the_wheel_holds_every_file_of_the_package_and_its_command(built):
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as opened:
        names = set(opened.namelist())
        (entry,) = (name for name in names if name.endswith("entry_points.txt"))
        command = opened.read(entry).decode()
    package = {name for name in names if ".dist-info/" not in name}
    wanted = {name.removeprefix("src/") for name in in_folder("src/care")}
    assert package == wanted
    assert {"care/py.typed", "care/explore/page.html", "care/report/page.html.jinja"} <= wanted
    assert "care = care.cli:main" in command


def test_the_source_distribution_holds_what_tests_and_docs_need(built):
    (source,) = built.glob("*.tar.gz")
    with tarfile.open(source) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    assert in_folder("src/care") | in_folder("tests") | in_folder("examples") | in_folder("docs/gallery") <= names
    pages = {path.name for path in ROOT.glob("*.md")} | {"LICENSE", "CITATION.cff", "pyproject.toml"}
    assert len(pages) >= 8
    assert pages <= names
