"""Which commit a result names."""

import shutil
import subprocess
from pathlib import Path

import care
from care.provenance import commit


def repository(folder):
    git = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b.example"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "theirs"], check=True)
    return git


def test_a_repository_in_which_care_is_installed_is_not_its_own(tmp_path, monkeypatch):
    """Its commit says nothing of care; one that holds the source does."""
    monkeypatch.delenv("CARE_COMMIT", raising=False)
    git = repository(tmp_path)
    installed = tmp_path / "env" / "care" / "__init__.py"
    installed.parent.mkdir(parents=True)
    shutil.copy(Path(care.__file__), installed)
    monkeypatch.setattr(care, "__file__", str(installed))
    assert commit() is None
    subprocess.run([*git, "add", "env"], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "ours"], check=True)
    head = subprocess.run([*git, "rev-parse", "--short=10", "HEAD"], check=True, capture_output=True, text=True)
    assert commit() == head.stdout.strip()
    installed.write_text("changed")
    assert commit() == head.stdout.strip() + "+"


def test_it_can_be_told(monkeypatch):
    monkeypatch.setenv("CARE_COMMIT", "abc")
    assert commit() == "abc"
