import math

import pytest

from care.tables import number, paragraphs, text_table


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (0.003942, 3, "0.00394"), (72.46, 3, "72.5"), (1752.0, 3, "1752"), (1.7e5, 3, "1.70e+05"), (16.2, 1, "16"),
        (0.0002, 2, "2.0e-04"), (0.0, 3, "0"), (-0.5, 2, "-0.50"), (math.nan, 3, "nan"),
    ],
)  # fmt: skip
def test_numbers(value, digits, text):
    assert number(value, digits) == text


def test_a_table_has_every_cell_in_its_column():
    lines = text_table("a [bold]title[/bold]", ("name", "value"), [("one [x]", "1"), ("three", "3.25")]).splitlines()
    assert lines[0].strip() == "a [bold]title[/bold]"
    assert [line.split() for line in lines[4:]] == [["one", "[x]", "1"], ["three", "3.25"]]
    assert lines[4].rstrip().endswith("   1")


def test_sentences_begin_a_line_each_and_fit_a_terminal():
    long = "a word " * 30
    text = paragraphs([long, "the next one."])
    assert max(len(line) for line in text.splitlines()) <= 80
    assert " ".join(text.split()) == f"{long.strip()} the next one."
    assert text.splitlines()[-1] == "the next one."
