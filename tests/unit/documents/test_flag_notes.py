"""The note about flagged texts of a document: their number, and places in the file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from mtkit.cli.commands.translation.translate import flag_note
from tests.unit.documents.generated import Line, translate


def flagging(lines: Iterable[str]) -> Iterator[Line]:
    for line in lines:
        flags = {"dogs": ("repetition",), "cats": ("limit", "repetition")}
        yield Line(line, flags=flags.get(line, ()))


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("<p>men\n<p>women", None),
        ("<p>dogs", "1 of 1 text is flagged: 1 ran into a loop (FILE:1)"),
        (
            "<p>men\n\n<p>dogs\n<p>women\n<p>cats",
            "2 of 4 texts are flagged: 2 ran into a loop (first: FILE:3); 1 cut off at the maximum length (FILE:5)",
        ),
    ],
)
def test_texts_are_counted_with_their_places(page: str, expected: str | None, tmp_path: Path) -> None:
    source = tmp_path / "a.html"
    source.write_text(page)
    note = flag_note(translate(source, tmp_path / "b.html", flagging))
    assert note == (None if expected is None else expected.replace("FILE", str(source)))


def test_a_text_of_several_lines_counts_once(tmp_path: Path) -> None:
    source = tmp_path / "a.json"
    source.write_text('{"a": "men",\n"b": "dogs\\ncats\\ndogs"}')
    report = translate(source, tmp_path / "b.json", flagging)
    assert (report.units, report.flagged, report.flags["repetition"]) == (2, 1, 1)
    assert report.first_flagged == {"repetition": f"{source}:2", "limit": f"{source}:2"}
