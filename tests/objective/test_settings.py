"""Settings: types, ranges, and sentences."""

import sys
from dataclasses import dataclass
from typing import Literal

import pytest

from care.objective import Settings, setting
from care.objective.registry import find, load, names, owners


@dataclass(frozen=True, kw_only=True)
class Some(Settings):
    rate: float = setting(0.5, "A rate.", above=0, at_most=1)
    count: int | None = setting(None, "A count.", at_least=2)
    word: Literal["a", "b"] = setting("a", "A word.")


def test_whole_numbers_serve_as_numbers_and_ranges_hold():
    made = Some(rate=1, count=2, word="b")
    assert (made.rate, type(made.rate), made.count) == (1.0, float, 2)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"rate": 0.0}, "rate must be greater than 0 and at most 1, got 0.0"),
        ({"rate": float("nan")}, "rate must be a finite number, got nan"),
        ({"rate": "much"}, "rate must be a finite number, got 'much'"),
        ({"count": 1}, "count must be at least 2, got 1"),
        ({"count": True}, "count must be a whole number or left out, got True"),
        ({"word": "c"}, "word must be one of a, b, got 'c'"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_mistakes_are_sentences(values, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        Some(**values)


def test_names_are_looked_up():
    assert find("method", "none") is None
    assert find("method", "simclr").__name__ == "SimCLR"
    assert names("equivariance")[:3] == ["care", "split", "steering"]
    assert names("equivariance")[-1] == "none"
    assert owners("queue") == [("method", "mocov2")]
    assert {"simclr", "mocov2"} <= {name for _, name in owners("temperature")}
    with pytest.raises(ValueError, match=r"method must be one of simclr, .*, got simclear; did you mean simclr\?"):
        find("method", "simclear")


def test_code_outside_of_care_is_not_run_unless_it_is_asked_for(tmp_path):
    file = tmp_path / "evil.py"
    file.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    with pytest.raises(ValueError, match=r"evil\.py:Evil is code outside of care: it is run only if --method"):
        find("method", f"{file}:Evil")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1", "has no class 'Mine' that is a care.objective.Method"),
        ("Mine = 3", "has no class 'Mine'"),
        ("class Mine: pass", "has no class 'Mine' that is a care.objective.Method"),
        ("import nowhere", "cannot be imported: ModuleNotFoundError"),
        ("class", "cannot be imported: SyntaxError"),
    ],
)
def test_what_is_wrong_with_code_of_ones_own_is_a_sentence(text, message, tmp_path):
    (tmp_path / "mine.py").write_text(text)
    with pytest.raises(ValueError, match=message):
        load("method", f"{tmp_path / 'mine.py'}:Mine")


def test_a_file_that_is_not_there():
    with pytest.raises(ValueError, match=r"nowhere\.py cannot be imported: FileNotFoundError: there is no file"):
        load("equivariance", "nowhere.py:Mine")


def test_files_of_one_name_in_two_folders_are_two_modules(tmp_path):
    """What a class looks up in its module, such as types of its settings, is its own file's."""
    found = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "mine.py").write_text(
            f"from care.methods.simclr import SimCLR\nNAME = {name!r}\nclass Mine(SimCLR):\n    pass\n"
        )
        found.append(load("method", f"{tmp_path / name / 'mine.py'}:Mine"))
    assert [sys.modules[method.__module__].NAME for method in found] == ["one", "two"]
