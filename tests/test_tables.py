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


@pytest.mark.parametrize("width", [30, 50, 79, 400])
def test_a_wide_table_is_cut_into_parts_that_repeat_the_first_column(width):
    header, rows = (
        ("name", *(f"column {i}" for i in range(9))),
        [[f"row {r}", *(f"{r}.{i}" for i in range(9))] for r in "ab"],
    )
    lines = text_table("t", header, rows, width).splitlines()
    assert max(map(len, lines)) <= width
    for name, *cells in rows:
        found = [line.split()[2:] for line in lines if line.strip().startswith(name)]
        assert [cell for part in found for cell in part] == cells
    assert sum(line.strip().startswith("name") for line in lines) == len(found)
    assert (len(found) == 1) == (width == 400)


def test_a_table_is_turned_where_a_column_does_not_fit_or_there_is_one_row():
    long = text_table("t", ("name", "a", "in words"), [("x", "1", "word " * 10), ("y", "2", "")], 40).splitlines()
    assert long == [
        "t",
        "",
        "name: x",
        "  a:        1",
        "  in words: word word word word word",
        "    word word word word word",
        "",
        "name: y",
        "  a:        2",
    ]
    one = text_table("t", ("", "first", "second"), [("model", "1" * 20, "2" * 20)], 40)
    assert one.split() == ["t", "model", "first:", "1" * 20, "second:", "2" * 20]


def test_the_terminal_says_how_wide_a_table_may_be(monkeypatch):
    cells = ["model"] + ["1" * 20] * 4
    for columns, widest in (("200", 100), ("60", 60)):
        monkeypatch.setenv("COLUMNS", columns)
        assert max(map(len, text_table("t", cells, [cells, cells]).splitlines())) <= widest
