"""What reaches stdout: tables with names of the user, exact data, and text for people without control characters."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from mtkit.cli import entry
from mtkit.cli.printing import print_data, print_lines, print_results
from mtkit.display import Table, TableFormat, columns_of
from tests.toy.training import toy_config, toy_train

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


COMMANDS = {
    "checkpoints": ["checkpoints", "RUN"],
    "doctor": ["doctor", "--no-speed"],
    "nearest": ["nearest", "VECTORS", "cat", "dog"],
    "describe": ["describe", "quickstart", "model.d_model=16", "model.encoder_layers=1", "model.decoder_layers=1"],
}


@pytest.mark.whole
@pytest.mark.parametrize("columns", [60, None, *(pytest.param(each, marks=pytest.mark.whole) for each in (80, 200))])
@pytest.mark.parametrize("command", COMMANDS)
def test_tables_of_commands_fit_the_terminal(command: str, columns: int | None, tmp_path: Path, capsys, monkeypatch):
    words = [str(each) for each in _inputs(tmp_path, COMMANDS[command])]
    assert entry.execute([*words, "--format", "tsv"]) == 0
    cells = {cell for line in capsys.readouterr().out.split("\n") for cell in line.split("\t")}
    if columns is not None:
        monkeypatch.setattr("sys.stdout.isatty", lambda: True)
        monkeypatch.setenv("COLUMNS", str(columns))
    assert entry.execute(words) == 0
    printed = capsys.readouterr().out
    assert all(columns is None or columns_of(line) <= columns for line in printed.split("\n"))
    numbers = {cell for cell in cells if re.fullmatch(r"[\d,.]+", cell)}
    assert numbers or command == "doctor"
    assert all(re.search(rf"(?<!\S){re.escape(number)}(?!\S)", printed) for number in numbers)
    if columns is None:  # every form
        for form in TableFormat:
            assert entry.execute([*words, "--format", form]) == 0
            out = capsys.readouterr().out
            assert json.loads(out) if form == "json" else out


def _inputs(folder: Path, words: list[str]) -> list[str | Path]:
    """The words of a command, with the run and the vectors that they name."""
    if "RUN" in words:
        toy_train(folder / "RUN", toy_config(max_updates=4, checkpoint_every=2))
    (folder / "VECTORS").write_text("cat 1 0\ndog 1 0.5\nbird -1 2\n")
    return [folder / word if word in ("RUN", "VECTORS") else word for word in words]


@pytest.mark.whole
@pytest.mark.parametrize("columns", [60, 80])
def test_errors_are_folded_in_a_terminal_alone(columns: int) -> None:
    words = [sys.executable, "-m", "mtkit", "study", "none"]
    piped = subprocess.run(words, capture_output=True, text=True, check=False)
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))
    assert subprocess.run(words, stderr=theirs, check=False).returncode == piped.returncode == 66
    lines = os.read(ours, 10_000).decode().split("\r\n")
    os.close(ours)
    os.close(theirs)
    assert max(map(len, lines)) <= columns
    assert " ".join(lines).split() == piped.stderr.split()
    assert max(map(len, piped.stderr.split("\n"))) > 80
