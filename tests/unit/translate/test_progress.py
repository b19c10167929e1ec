"""Progress on stderr: how often, what it says, and that nothing of it stays at a terminal."""

from __future__ import annotations

import io

import pytest

from mtkit.translate.output import TranslationProgress
from mtkit.translate.translation import Translation


def report(num_lines, seconds_per_line, *, is_terminal, total=None, first=1):
    """The text that is written, and how often the lines were counted."""
    now, counted, stream = [0.0], [], io.StringIO()

    def count():
        counted.append(1)
        return total

    with TranslationProgress(stream, is_terminal=is_terminal, count_lines=count, clock=lambda: now[0]) as progress:
        for line in range(first, first + num_lines):
            now[0] += seconds_per_line
            progress.add(Translation(line=line, hyp=""))
    return stream.getvalue(), len(counted)


def test_a_log_has_a_line_every_thirty_seconds():
    text, counted = report(1000, 0.0625, is_terminal=False, total=1600)
    assert text == "480 of 1,600 lines, 16 lines/s, 1:10 left\n960 of 1,600 lines, 16 lines/s, 0:40 left\n"
    assert counted == 1


def test_a_terminal_has_one_line_that_is_erased_at_the_end():
    text, _ = report(50, 0.0625, is_terminal=True)
    updates = ["16 lines, 16 lines/s\r", "32 lines, 16 lines/s\r", "48 lines, 16 lines/s\r"]
    assert text.split("\r\x1b[K") == ["", *updates, ""]


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_short_translation_says_nothing(is_terminal):
    assert report(50, 0.01, is_terminal=is_terminal, total=50) == ("", 0)


def test_lines_that_were_resumed_are_not_in_the_rate():
    text, _ = report(31, 1, is_terminal=False, total=5000, first=1000)
    assert text == "1,029 of 5,000 lines, 1.0 lines/s, 1:06:10 left\n"


def test_lines_that_arrive_together_are_counted_together():
    now, stream = [0.0], io.StringIO()
    with TranslationProgress(stream, is_terminal=False, count_lines=lambda: 500, clock=lambda: now[0]) as progress:
        for window in range(3):
            now[0] += 40
            for line in range(100 * window + 1, 100 * window + 101):
                progress.add(Translation(line=line, hyp=""))
    assert stream.getvalue() == (
        "100 of 500 lines, 2.5 lines/s, 2:00 left\n"  # 160 s after the 40, of which 40 have passed
        "200 of 500 lines, 2.5 lines/s, 1:20 left\n"
    )
