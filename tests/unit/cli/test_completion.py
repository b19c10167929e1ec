"""Shell completion of recipes, claims and keys, by the protocol of the shell."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from mtkit.cli import entry
from mtkit.cli.options import complete_key, complete_override
from mtkit.evidence.claim import claim_names
from mtkit.recipe.paths import builtin_files
from mtkit.recipe.sections import Recipe
from mtkit.recipe.type_hints import has_path, walk_keys
from tests.toy.sampling import sampled


def completed(line: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("_MTKIT_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(line.split(" ")) - 1))
    entry.execute([])
    return capsys.readouterr().out.split()


@pytest.mark.parametrize("command", ["run", "train", "preprocess", "describe"])
def test_recipes_are_completed(command: str, tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("quiet.yaml").touch()
    Path("quilt").mkdir()
    found = completed(f"mtkit {command} qui", capsys, monkeypatch)
    assert set(found) == {*(each for each in builtin_files("recipe") if each.startswith("qui")), "quiet.yaml", "quilt/"}


def test_claims_are_completed(tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert completed("mtkit reproduce de", capsys, monkeypatch) == [e for e in claim_names() if e.startswith("de")]


def test_keys_are_completed_one_section_at_a_time(tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert completed("mtkit keys tok", capsys, monkeypatch) == ["tokenizer"]
    assert completed("mtkit train quickstart training.opt", capsys, monkeypatch) == ["training.optimiser."]
    assert "training.optimiser.beta1=" in completed("mtkit train x training.optimiser.b", capsys, monkeypatch)


def _prefixes(count: int) -> list[str]:
    rng = random.Random(3)
    paths = sorted({path for path, _, _ in walk_keys(Recipe)})
    return [path[: rng.randrange(len(path)) + 1] for path in rng.sample(paths, count)]


@pytest.mark.parametrize("prefix", _prefixes(sampled(200, least=20)))
def test_a_completion_is_a_key_that_begins_so(prefix: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = complete_key(prefix)
    assert found
    assert all(each.startswith(prefix) and has_path(Recipe, each) for each in found)
    assert [each[:-1] for each in complete_override(prefix)] == found
