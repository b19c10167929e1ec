"""The summary of flags counts lines and names the first ones."""

from __future__ import annotations

import re
from pathlib import Path

from mtkit.translate.output import FlagSummary
from mtkit.translate.translation import FLAGS, Translation

DOCS = Path(__file__).parents[3] / "docs"


def summary(*flags: tuple[str, ...]) -> str | None:
    counted = FlagSummary()
    for line, each in enumerate(flags, start=1):
        counted.add(Translation(line=line, hyp="", flags=each))
    return counted.sentence()


def test_lines_are_counted_by_flag():
    assert summary((), ()) is None
    sentence = summary(("unknown",), (), ("split", "unknown"), ("limit",))
    assert sentence == (
        "3 of 4 lines are flagged: 1 split, longer than any training source (line 3); "
        "1 cut off at the maximum length (line 4); 2 with characters that the vocabulary lacks (lines 1, 3)"
    )


def test_only_the_first_lines_are_named():
    assert "7 ran into a loop (lines 1, 2, 3, 4, 5, ...)" in str(summary(*[("repetition",)] * 7))


def test_the_documentation_has_every_flag():
    text = (DOCS / "translation.md").read_text(encoding="utf-8")
    table = text.partition("| flag | line |\n|---|---|\n")[2].partition("\n\n")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == [*FLAGS]
