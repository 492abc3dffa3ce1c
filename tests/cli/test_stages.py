"""Progress where there is no terminal: few lines, with what one wants to know."""

import io

import pytest
from rich.console import Console

from care.cli.progress import Lines, duration, progress_bars


def test_a_log_gets_a_line_at_the_start_one_a_minute_and_one_at_the_end():
    """10,000 pictures, one a quarter of a second: 41 minutes and 40 seconds."""
    lines, now = [], [100.0]
    progress = Lines(lines.append, lambda: now[0])
    for done in range(1, 10_001):
        now[0] += 0.25
        progress("embedding", done, 10_000)
    assert lines[0] == "embedding: 1 of 10,000"
    assert lines[1] == "embedding: 241 of 10,000, 4.0 a second, 40:40 left"
    assert lines[-2] == "embedding: 9,841 of 10,000, 4.0 a second, 0:40 left"
    assert lines[-1] == "embedding: done after 2500.0 s"
    assert len(lines) == 1 + 41 + 1


def test_slow_stages_count_by_the_minute_and_what_was_done_before_does_not_count():
    lines, now = [], [0.0]
    progress = Lines(lines.append, lambda: now[0])
    progress("trials", 7, 27)  # seven were found
    for done in (8, 9):
        now[0] += 3600
        progress("trials", done, 27)
    assert lines[1:] == [
        "trials: 8 of 27, 1.0 an hour, 19:00:00 left",
        "trials: 9 of 27, 1.0 an hour, 18:00:00 left",
    ]


def test_what_is_done_at_once_takes_one_line():
    lines = []
    Lines(lines.append, lambda: 0.0)("figures", 3, 3)
    assert lines == ["figures: done after 0.0 s"]


@pytest.mark.parametrize(("seconds", "words"), [(0.0, "0:00"), (59.6, "1:00"), (3599.0, "59:59"), (7384.0, "2:03:04")])
def test_durations(seconds, words):
    assert duration(seconds) == words


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_terminal_gets_bars_and_a_log_gets_lines(monkeypatch, is_terminal):
    stream = io.StringIO()
    monkeypatch.setattr(
        "care.cli.progress.Console", lambda **_: Console(file=stream, force_terminal=is_terminal, width=100)
    )
    with progress_bars() as progress:
        for done in range(1, 4):
            progress("embedding", done, 3)
    shown = stream.getvalue()
    assert ("━" in shown) == is_terminal
    assert ("embedding: done after" in shown) == (not is_terminal)
