"""What reaches stdout: tables with names of the user, exact data, and text for people without control characters."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mtkit.cli.printing import print_data, print_lines, print_results
from mtkit.io.table import Table, TableFormat

ESCAPE = "\x1b]52;c;QUJD\x07 \u202etxt"


@pytest.mark.parametrize("name", ["hyp[de].txt", "a[/b]", ":smile:", "long/" * 60])
def test_names_in_tables_are_neither_cut_nor_parsed_as_markup(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    print_results([Table(["system", "BLEU"], [[name, "31.40"]], text=["system"])])
    row = next(line for line in capsys.readouterr().out.splitlines() if "31.40" in line)
    assert name in row


def test_data_is_exact_and_text_is_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    print_data([ESCAPE])
    print_lines([ESCAPE])
    print_results([Table(["h"], [[ESCAPE]], text=["h"])])
    out = capsys.readouterr().out.split("\n")
    assert out[0] == ESCAPE
    assert out[1] == out[4] == r"\x1b]52;c;QUJD\x07 \u202etxt"


@pytest.mark.parametrize("form", [None, *TableFormat])
def test_notes_of_each_form(form: TableFormat | None, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "j.json"
    print_results([Table(["h"], [["1"]])], form, notes=["a note"], content={"h": 1}, json_file=file)
    captured = capsys.readouterr()
    assert json.loads(file.read_text()) == {"h": 1}
    marks = {"markdown": "- a note", "latex": "% a note", "tsv": "", "json": ""}
    assert ("a note" in captured.out) == (form not in ("tsv", "json"))
    assert marks.get(form or "", "a note") in captured.out
    assert captured.err == ("a note\n" if form == "tsv" else "")
    print_results([Table(["h"], [["1"]])], form, content={"h": 1}, json_file=Path("-"))
    assert json.loads(capsys.readouterr().out) == {"h": 1}
