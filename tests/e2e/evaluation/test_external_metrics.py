"""Metrics of other programs in `evaluate` and `compare`: files and commands, intervals, tests, direction, errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mtkit.cli import entry

LINES = 40


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    refs = [f"das ist Satz Nummer {n}" for n in range(LINES)]
    texts = {
        "ref": refs,
        "one": refs,
        "two": [f"{ref} nicht" if n % 2 else ref for n, ref in enumerate(refs)],
        "good": [f"{0.8 + n / 1000}" for n in range(LINES)],
        "bad": [f"{0.5 + n / 1000}" for n in range(LINES)],
        "short": ["1"],
        "words": ["0.5"] * (LINES - 1) + ["x"],
        "infinite": ["inf"] * LINES,
    }
    for name, lines in texts.items():
        Path(name).write_text("".join(f"{line}\n" for line in lines))


def report(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert entry.execute(["evaluate", "one", "two", "--ref", "ref", *words]) == 0
    return capsys.readouterr().out


@pytest.mark.usefixtures("files")
def test_numbers_of_files_have_intervals_and_tests(capsys) -> None:
    out = report(capsys, "--metrics", "chrf", "--scores", "comet=good", "--scores", "comet=bad", "--json", "j")
    assert "0.8195" in out.replace("* ", "")
    (row,) = [line for line in out.split("\n") if line.startswith("comet") and " two " in line]
    assert "0.5195" in row
    assert row.split()[-1] == "0.0001"  # p
    content = json.loads(Path("j").read_text())
    assert content["one"]["comet"] == pytest.approx(0.8195)
    assert content["two"]["comet_p_randomisation"] < 0.001
    assert content["two"]["line_scores"]["comet"][3] == 0.503
    assert "mean of lines" in content["one"]["comet_signature"]


@pytest.mark.usefixtures("files")
def test_command_reads_files_and_a_lower_score_may_be_better(capsys) -> None:
    command = 'errors=while read -r line; do set -- $line; echo $#; done < "$HYP"'
    out = report(capsys, "--metrics", "chrf", "--score-command", command, "--lower-is-better", "errors")
    rows = [line for line in out.split("\n") if line.startswith("errors ")]
    assert ["* 5.00" in row for row in rows] == [True, False]
    assert "5.50" in rows[1]
    words = ["compare", "one", "two", "--ref", "ref", "--score-command", command, "--lower-is-better", "errors"]
    assert entry.execute([*words, "--fail-on", "0.4", "--metrics", "bleu", "--html", "p"]) == 65
    assert "two by 0.5000 errors" in capsys.readouterr().err
    assert "5.50" in Path("p").read_text()


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--scores", "comet=good"], 2, "given 1 times for 2 systems"),
        (["--scores", "good"], 2, "give NAME=FILE"),
        (["--scores", "bleu=good"], 2, "mtkit has bleu itself"),
        (["--scores", "x=good", "--scores", "x=short"], 65, "1 numbers for 40 lines of two"),
        (["--scores", "x=good", "--scores", "x=words"], 65, "words:40: 'x' is no finite number"),
        (["--scores", "x=good", "--scores", "x=infinite"], 65, "infinite:1: 'inf' is no finite number"),
        (["--scores", "x=good", "--scores", "x=missing"], 66, "missing"),
        (["--score-command", "x=exit 3"], 65, "exit code 3"),
        (["--score-command", "x=echo 1"], 65, "1 numbers for 40 lines"),
        (["--lower-is-better", "x"], 2, "no metric of --scores"),
    ],
)
def test_errors_are_a_sentence(capsys, words, code, message) -> None:
    assert entry.execute(["evaluate", "one", "two", "--ref", "ref", *words]) == code
    assert message in capsys.readouterr().err
