"""Tokenizer and corpus of runs: made once, and whole in every folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from mtkit.errors import BusyError, MissingInputError, RecipeError
from mtkit.io.lock import RunLock
from mtkit.pipeline.prepare_corpus import make_corpus, make_tokenizer
from mtkit.pipeline.run_folder import open_run
from mtkit.recipe.recipe import load_saved
from mtkit.study.prepare import prepare
from mtkit.study.runs import StudyRun, runs_of
from mtkit.training.monitoring.log import Silent
from tests.unit.study.made_up import finish, toy_corpus, toy_study


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    toy_corpus(tmp_path)
    return tmp_path


def runs(folder: Path, *overrides: str) -> list[StudyRun]:
    return runs_of(toy_study(folder, *overrides), folder / "runs")


def made(run: StudyRun) -> list[int]:
    """Which files on the disk a run's tokenizer and corpus are."""
    folders = (run.folder.tokenizer, run.folder.valid.parent)
    return [path.stat().st_ino for folder in folders for path in sorted(folder.rglob("*")) if path.is_file()]


def test_equal_ones_are_the_same_files_and_others_are_not(folder: Path) -> None:
    found = runs(folder, "variants.words={tokenizer: {vocab_size: 113}}", "seeds=[1, 2]")
    prepare(found, fresh=False, display=Silent())
    by_variant = {run.label: made(run) for run in found}
    assert by_variant["pre, seed 1"] == by_variant["post, seed 2"]
    assert by_variant["words, seed 1"] == by_variant["words, seed 2"]
    assert not set(by_variant["pre, seed 1"]) & set(by_variant["words, seed 1"])
    assert all(load_saved(run.folder.recipe) == run.recipe for run in found)


def test_a_run_takes_what_is_linked_for_its_own(folder: Path) -> None:
    found = runs(folder)
    prepare(found, fresh=False, display=Silent())
    said: list[str] = []
    with open_run(found[1].recipe, found[1].folder.path) as held:
        held.log.display = type("Heard", (), {"event": lambda _, name, update, fields: said.append(fields["result"])})()
        make_corpus(held, make_tokenizer(held))
    assert set(said) == {"unchanged, kept"}


def test_what_one_run_makes_anew_changes_no_other(folder: Path) -> None:
    found = runs(folder)
    prepare(found, fresh=False, display=Silent())
    before = made(found[0])
    (folder / "train.en").write_text((folder / "train.en").read_text().replace("dog", "cat"))
    with open_run(found[1].recipe, found[1].folder.path) as held:
        make_corpus(held, make_tokenizer(held))
    assert made(found[0]) == before != made(found[1])


def test_without_hard_links_there_are_copies(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr("mtkit.study.prepare.os.link", refuse)
    found = runs(folder)
    prepare(found, fresh=False, display=Silent())
    assert len(made(found[1])) == len(made(found[0]))
    assert not set(made(found[1])) & set(made(found[0]))


def test_finished_runs_are_left_alone_unless_all_is_to_be_fresh(folder: Path) -> None:
    found = runs(folder)
    finish(found[0], ["x"], bleu=1.0, loss=1.0)
    prepare(found, fresh=False, display=Silent())
    assert found[0].is_finished()
    assert not found[0].folder.tokenizer.exists()
    assert found[1].folder.tokenizer.is_dir()
    prepare(found, fresh=True, display=Silent())
    assert not found[0].is_finished()


def test_a_changed_recipe_is_not_finished_and_refused(folder: Path) -> None:
    finish(runs(folder)[0], ["x"], bleu=1.0, loss=1.0)
    changed = runs(folder, "model.dropout=0.5")
    assert not changed[0].is_finished()
    with pytest.raises(RecipeError, match=r"model.dropout: 0.3, now 0.5(.|\n)*--fresh"):
        prepare(changed, fresh=False, display=Silent())


def test_text_and_folders_are_looked_at_before_anything_is_trained(folder: Path) -> None:
    found = runs(folder)
    with RunLock(found[2].folder.path), pytest.raises(BusyError, match="seed-2"):
        prepare(found, fresh=False, display=Silent())
    (folder / "train.de").unlink()
    with pytest.raises(MissingInputError, match=r"train.de: no such file"):
        prepare(runs(folder, "name=other"), fresh=True, display=Silent())
