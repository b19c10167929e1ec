"""Words that people type first: every command answers with help, or with a sentence and a code that says why."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from mtkit.cli import entry
from mtkit.cli.app import COMMANDS
from mtkit.cli.examples import EXAMPLES
from mtkit.translate.output.formats import as_moses_n_best
from mtkit.translate.translation import Alternative, Translation

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


@pytest.mark.parametrize("seed", range(20))  # 400 n-best lists
def test_moses_lists_are_read_back(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(20):
        hyps = ["".join(rng.choices("ab -é", k=rng.randint(0, 9))) for _ in range(rng.randint(1, 5))]
        nbest = tuple(Alternative(hyp=hyp, score=-rng.random() * 9, log_prob=-rng.random() * 9) for hyp in hyps)
        number = rng.randint(1, 10**6)
        lines = as_moses_n_best(Translation(line=number, hyp=hyps[0], nbest=nbest), "source").split("\n")
        fields = [line.split(" ||| ") for line in lines]
        assert [each[0] for each in fields] == [str(number - 1)] * len(hyps)
        assert [each[1] for each in fields] == hyps
        assert [float(each[2].removeprefix("LogProb= ")) for each in fields] == pytest.approx(
            [n.log_prob for n in nbest], abs=1e-6
        )
        assert [float(each[3]) for each in fields] == pytest.approx([n.score for n in nbest], abs=1e-6)
