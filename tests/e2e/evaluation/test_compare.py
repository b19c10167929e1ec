"""`mtkit compare` on files: the reasons on the first screen, JSON, the gate, and errors in one sentence."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from mtkit.cli import entry

REF = [f"der Mann sieht den Hund Nummer {n} nicht ." if n % 2 else f"die Frau kauft {n} Brote ." for n in range(60)]


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    texts = {
        "ref": REF,
        "src": [f"line {n}" for n in range(60)],
        "one": [line.replace("Brote", "Brot") for line in REF],
        "two": [line.replace(" nicht", "").replace("Brote", "Brot") for line in REF],
        "docs": ["a", "b"] * 30,
        "hostile": ["\x1b]52;c;eA==\x07 <b>x</b> \u202e nicht"] * 60,
    }
    for name, lines in texts.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    return {name: str(tmp_path / name) for name in texts}


def test_reasons_are_on_the_first_screen(files, tmp_path, capsys) -> None:
    words = [
        "compare",
        files["one"],
        files["two"],
        "--ref",
        files["ref"],
        "--src",
        files["src"],
        "--docid",
        files["docs"],
    ]
    assert entry.execute([*words, "--json", str(tmp_path / "j")]) == 0
    out = capsys.readouterr().out
    screen = "\n".join(out.split("\n")[:24])
    assert "0 lines better, 30 worse, 30 with equal chrF2" in screen
    assert "alone: nicht (30 against 0)" in screen
    assert "missing words 0 -> 30 (nicht ×30)" in screen
    assert "[-nicht-]" in screen
    assert "\nb   " in out
    content = json.loads((tmp_path / "j").read_text())
    assert content["reasons"][0]["ngrams"][0]["ngram"] == "nicht"
    lines = content["line_scores"][files["two"]]["chrf"]
    assert len(lines) == 60
    assert min(lines[1::2]) < 100


def test_page_has_the_content_and_hostile_text_stays_text(files, tmp_path, capsys) -> None:
    page = tmp_path / "page.html"
    words = ["compare", *(files[each] for each in ("one", "two", "hostile")), "--ref", files["ref"]]
    assert entry.execute([*words, "--src", files["src"], "--html", str(page)]) == 0
    content = page.read_text()
    for shown in ("alone: nicht (30 against 0)", "<del>nicht</del>", "missing words", "line 5", "95% interval"):
        assert shown in content, shown
    assert not re.search("<b>x|\x1b|\u202e|<script|<img|https?:", content)
    assert "\\x1b]52" in content
    assert entry.execute([*words, "--html", files["two"]]) == 2
    assert "--html" in capsys.readouterr().err


def test_evaluate_names_the_first_reasons_and_has_line_scores(files, tmp_path, capsys) -> None:
    words = ["evaluate", files["one"], files["two"], "--ref", files["ref"], "--json", str(tmp_path / "j")]
    assert entry.execute(words) == 0
    assert "alone: nicht (30 against 0)" in capsys.readouterr().out
    lines = json.loads((tmp_path / "j").read_text())[files["one"]]["line_scores"]
    assert {metric: len(scores) for metric, scores in lines.items()} == {"bleu": 60, "chrf": 60, "ter": 60}
    assert lines["bleu"][1] == pytest.approx(100)


@pytest.mark.parametrize(
    ("order", "value", "code"),
    [
        (("one", "two"), "significant", 65),
        (("one", "two"), "0.5", 65),
        (("one", "two"), "99", 0),
        (("two", "one"), "0", 0),
        (("two", "one"), "significant", 0),
        (("one", "two"), "much", 2),
        (("one", "two"), "nan", 2),
        (("one", "two"), "-1", 2),
    ],
)
def test_gate(order, value, code, files, capsys) -> None:
    words = ["compare", *(files[each] for each in order), "--ref", files["ref"], "--fail-on", value]
    assert entry.execute(words) == code
    error = capsys.readouterr().err
    assert ("--fail-on" in error) == bool(code)


def test_text_of_others_does_not_reach_the_terminal_raw(files, capsys) -> None:
    assert entry.execute(["compare", files["one"], files["hostile"], "--ref", files["ref"]]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\u202e" not in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["compare", "{one}", "--ref", "{ref}"], "give translations of two or more systems"),
        (["compare", "{one}", "{two}", "--ref", "{ref}", "--metrics", "x"], "no such metric: x; the metrics are bleu"),
        (["compare", "{one}", "{one}", "--ref", "{ref}"], "is given twice; omit one"),
    ],
)
def test_wrong_usage(words, message, files, capsys) -> None:
    assert entry.execute([word.format(**files) for word in words]) == 2
    assert message in capsys.readouterr().err
