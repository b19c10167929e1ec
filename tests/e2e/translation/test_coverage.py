"""Flags for dropped and invented words, from the training text to JSON lines, --flags, explain, and a model without."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from mtkit.cli import entry
from tests.toy import runs


@pytest.mark.whole
def test_a_run_with_a_validation_set_flags_words_and_a_model_without_lexicon_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs.write_all(tmp_path)
    rng = random.Random(1)
    for name, count in (("train", 300), ("valid", 80), ("test", 20)):
        lines = [" ".join(rng.sample([*runs.WORDS], rng.randint(2, 6))) for _ in range(count)]
        runs.write_pair(tmp_path, name, lines)
    runs.run(tmp_path, "search.beam_size=1")
    source, flags, model = tmp_path / "test.en", tmp_path / "flags", tmp_path / "run" / "model"
    capsys.readouterr()

    def translations() -> list[dict[str, object]]:
        assert entry.execute(["translate", str(model), str(source), "--jsonl", "--flags", str(flags)]) == 0
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    found = translations()
    assert any("dropped" in each["flags"] for each in found)  # the model has learned nothing
    for each, line in zip(found, source.read_text().splitlines(), strict=True):
        assert ("dropped" in each["flags"]) == bool(each["dropped"])
        assert ("invented" in each["flags"]) == bool(each["invented"])
        assert all(line.split()[word] == text for word, text, _ in each["dropped"])
        assert all(each["hyp"].split()[word] == text for word, text, _ in each["invented"])
        for word in each["dropped"]:
            assert runs.WORDS[word[1]] not in each["hyp"].split()
    flagged = {each["line"]: each for each in map(json.loads, flags.read_text().splitlines())}
    assert all(flagged[each["line"]].get("dropped", []) == each["dropped"] for each in found if each["flags"])
    assert entry.execute(["explain", str(model), source.read_text().splitlines()[0], "--json", str(flags)]) == 0
    assert "coverage     unknown" not in capsys.readouterr().out
    assert json.loads(flags.read_text())["dropped"] == found[0]["dropped"]
    (model / "lexicon.safetensors").unlink()
    without = translations()
    assert [each["hyp"] for each in without] == [each["hyp"] for each in found]
    assert not any(each["dropped"] or each["invented"] for each in without)
    assert entry.execute(["explain", str(model), "the dog"]) == 0
    assert "coverage     unknown" in capsys.readouterr().out
