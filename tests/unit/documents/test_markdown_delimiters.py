"""Delimiters of Markdown: pairs stay pairs, and what opens or closes nothing is text."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.documents.generated import translate


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("see ***this*** now", "SEE ***THIS*** NOW"),
        ("`port` **Default:** `443`", "`port` **DEFAULT:** `443`"),
        ("a truck of sh*t works", r"A TRUCK OF SH\*T WORKS"),
        (r"a {Buffer\[]} here", r"A {BUFFER\[\]} HERE"),
        (r"in \_\_init\_\_.py or \_x", r"IN \_\_INIT\_\_.PY OR \_X"),
        ("the [ of an array", r"THE \[ OF AN ARRAY"),
        ("see [the page](http://a.b) ] now", r"SEE [THE PAGE](http://a.b) \] NOW"),
        ("see **the page**. Now", "SEE **THE PAGE**. NOW"),
        ("it (**so**), and", "IT (**SO**), AND"),
        ("the committee (<a@b.org>) for it", "THE COMMITTEE (<a@b.org>) FOR IT"),
    ],
)
def test_delimiters(line: str, expected: str, tmp_path: Path) -> None:
    source, output = tmp_path / "a.md", tmp_path / "b.md"
    source.write_text(f"{line}\n")
    translate(source, output)
    assert output.read_text() == f"{expected}\n"
