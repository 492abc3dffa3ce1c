"""The rate and the time that is left, on a clock of the test's own."""

import io

from rich.console import Console

from care.cli.rate import SECONDS_BETWEEN_LINES, in_words, showing_rate


def shown(terminal, total):
    """What is printed while 4,000 of 10,000 were there before, and one more is done every eighth of a second."""
    now, console = [0.0], Console(file=io.StringIO(), force_terminal=terminal, width=120, color_system=None)
    with showing_rate(console, "pets train", "pictures", total, clock=lambda: now[0]) as tick:
        for done in range(4000, 5201):
            tick(done)
            now[0] += 0.125
    return console.file.getvalue()


def test_without_a_terminal_there_is_a_line_a_minute():
    assert SECONDS_BETWEEN_LINES == 60
    first, second = shown(False, 10_000).splitlines()
    assert first == "pets train: 4,480 of 10,000 pictures, 8.0/s, 11:30 left"
    assert second == "pets train: 4,960 of 10,000 pictures, 8.0/s, 10:30 left"
    assert shown(False, None).splitlines()[0] == "pets train: 4,480 pictures, 8.0/s"


def test_on_a_terminal_there_is_a_bar():
    assert "5,200 of 10,000 pictures, 8.0/s, 10:00 left" in shown(True, 10_000)


def test_before_anything_is_done_no_rate_is_known():
    assert in_words(12, 100, "pictures", 0, 0.0) == "12 of 100 pictures"
    assert in_words(15, 100, "pictures", 3, 2.0) == "15 of 100 pictures, 1.5/s, 0:57 left"
