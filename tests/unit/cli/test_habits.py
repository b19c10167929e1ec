"""Words that people type first: every command answers with help, or with a sentence and a code that says why."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from mtkit.cli import entry
from mtkit.cli.app import COMMANDS, EXAMPLES
from mtkit.translate.output import as_moses_n_best, as_n_best
from mtkit.translate.translation import Alternative, Translation
from tests.toy.sampling import sampled

HABITS = [
    "-h",
    "--help",
    "--beam",
    "-q",
    "--model=x",
    "--reference",
    "--output",
    "--Json",
    "--no-such=1",
    "-",
    "\x1b]52;c;x\x07",
]


@pytest.mark.whole
@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("habit", HABITS)  # 11 of each command
def test_habits_are_answered(name: str, habit: str, tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    code = entry.execute([name, habit, *(["--no-such-option"] if habit == "-" else [])])
    out, err = capsys.readouterr()
    assert code in ((0,) if habit in ("-h", "--help") else (2, 66))  # 66: no recipe or file of that name
    assert EXAMPLES[name][0] in out if code == 0 else (out == "" and "error: " in err)
    assert "\x1b" not in err
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("seed", range(sampled(20)))  # 400 n-best lists
def test_moses_lists_are_read_back(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(20):
        hyps = ["".join(rng.choices(["a", "b ", " ", "é", "-", "|", "||", "|||"], k=rng.randint(0, 9))) for _ in "abc"]
        nbest = tuple(Alternative(hyp=hyp, score=-rng.random() * 9, log_prob=-rng.random() * 9) for hyp in hyps)
        translation = Translation(line=rng.randint(1, 10**6), hyp=hyps[0], nbest=nbest)
        moses = [line.split("|||") for line in as_moses_n_best(translation, "source").split("\n")]
        assert [len(fields) for fields in moses] == [4] * 3
        for fields, line, best in zip(moses, as_n_best(translation, "source").split("\n"), nbest, strict=True):
            number, hyp, log_prob, score = fields
            assert number == f"{translation.line - 1} "
            assert hyp.replace(" ", "") == best.hyp.replace(" ", "")  # no bar is lost
            assert hyp == f" {best.hyp} " or "|||" in best.hyp
            assert float(log_prob.removeprefix(" LogProb= ")) == pytest.approx(best.log_prob, abs=1e-6)
            assert float(score) == pytest.approx(best.score, abs=1e-6)
            assert line.partition(" ||| ")[2].rpartition(" ||| ")[0] == best.hyp


def test_bars_in_moses_lists() -> None:
    nbest = tuple(Alternative(hyp=hyp, score=-1.0, log_prob=-1.0) for hyp in ("a ||| b", "||||", "a||b |"))
    lines = as_moses_n_best(Translation(line=1, hyp="a ||| b", nbest=nbest), "source").split("\n")
    assert [line.split(" ||| ")[1] for line in lines] == ["a | | | b", "| | | |", "a||b |"]
