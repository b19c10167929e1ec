"""Tokenizer and corpus of the runs of a study: prepared once, and complete in every folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from mtkit.errors import BusyError, MissingInputError, RecipeError
from mtkit.io.lock import RunLock
from mtkit.pipeline.open_run import open_run
from mtkit.pipeline.prepare_corpus import prepare_corpus
from mtkit.pipeline.prepare_tokenizer import prepare_tokenizer
from mtkit.recipe.recipe import load_saved
from mtkit.study.jobs import prepare_runs
from mtkit.study.runs import StudyRun, runs_of
from mtkit.training.monitoring.log import NullDisplay
from tests.toy.studies import finish, toy_corpus, toy_study


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    toy_corpus(tmp_path)
    return tmp_path


def runs(folder: Path, *overrides: str) -> list[StudyRun]:
    return runs_of(toy_study(folder, *overrides), folder / "runs")


def inodes(run: StudyRun) -> list[int]:
    """Inodes of a run's tokenizer and corpus files."""
    folders = (run.folder.tokenizer, run.folder.corpus)
    return [path.stat().st_ino for folder in folders for path in sorted(folder.rglob("*")) if path.is_file()]


def test_equal_corpora_are_the_same_files(folder: Path) -> None:
    found = runs(folder, "variants.words={tokenizer: {vocab_size: 113}}", "seeds=[1, 2]")
    prepare_runs(found, fresh=False, display=NullDisplay())
    by_variant = {run.label: inodes(run) for run in found}
    assert by_variant["pre, seed 1"] == by_variant["post, seed 2"]
    assert by_variant["words, seed 1"] == by_variant["words, seed 2"]
    assert not set(by_variant["pre, seed 1"]) & set(by_variant["words, seed 1"])
    assert all(load_saved(run.folder.recipe) == run.recipe for run in found)


def test_a_run_accepts_the_linked_files(folder: Path) -> None:
    found = runs(folder)
    prepare_runs(found, fresh=False, display=NullDisplay())
    results: list[str] = []
    event = {"event": lambda _, name, update, fields: results.append(fields["result"])}
    with open_run(found[1].recipe, found[1].folder.path) as opened:
        opened.log.display = type("RecordingDisplay", (), event)()
        prepare_corpus(opened, prepare_tokenizer(opened))
    assert set(results) == {"unchanged, kept"}


def test_a_run_that_rebuilds_its_corpus_changes_no_other(folder: Path) -> None:
    found = runs(folder)
    prepare_runs(found, fresh=False, display=NullDisplay())
    before = inodes(found[0])
    (folder / "train.en").write_text((folder / "train.en").read_text().replace("dog", "cat"))
    with open_run(found[1].recipe, found[1].folder.path) as opened:
        prepare_corpus(opened, prepare_tokenizer(opened))
    assert inodes(found[0]) == before != inodes(found[1])


def test_files_are_copied_where_hard_links_fail(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr("mtkit.study.jobs.os.link", refuse)
    found = runs(folder)
    prepare_runs(found, fresh=False, display=NullDisplay())
    assert len(inodes(found[1])) == len(inodes(found[0]))
    assert not set(inodes(found[1])) & set(inodes(found[0]))


def test_finished_runs_are_kept_unless_fresh(folder: Path) -> None:
    found = runs(folder)
    finish(found[0], ["x"], bleu=1.0, loss=1.0)
    prepare_runs(found, fresh=False, display=NullDisplay())
    assert found[0].is_finished()
    assert not found[0].folder.tokenizer.exists()
    assert found[1].folder.tokenizer.is_dir()
    prepare_runs(found, fresh=True, display=NullDisplay())
    assert not found[0].is_finished()


@pytest.mark.whole
@pytest.mark.parametrize(
    "override", ["training.max_updates=8", "search.beam_size=2", "evaluation.metrics=[bleu, chrf]"]
)
def test_what_an_interrupted_repetition_left_is_unfinished(folder: Path, override: str) -> None:
    """The repetition saves its recipe in all folders before it continues the first training."""
    prepare_runs(runs(folder), fresh=False, display=NullDisplay())
    finish(runs(folder)[0], ["x"], bleu=1.0, loss=1.0)
    assert runs(folder)[0].is_finished()
    changed = runs(folder, override)
    prepare_runs(changed, fresh=False, display=NullDisplay())
    assert changed[0].folder.load_recipe() == changed[0].recipe
    assert not changed[0].is_finished()
    assert runs(folder)[0].is_finished() is False  # the saved recipe is the changed one


def test_scores_of_another_text_are_not_those_of_the_run(folder: Path) -> None:
    run = runs(folder)[0]
    finish(run, ["x"], bleu=1.0, loss=1.0)
    assert run.is_finished()
    (folder / "test.de").write_text((folder / "test.de").read_text().replace("Hund", "Kater"))
    assert not run.is_finished()


def test_a_changed_recipe_is_refused(folder: Path) -> None:
    finish(runs(folder)[0], ["x"], bleu=1.0, loss=1.0)
    changed = runs(folder, "model.dropout=0.5")
    assert not changed[0].is_finished()
    with pytest.raises(RecipeError, match=r"model.dropout: 0.3, now 0.5(.|\n)*--fresh"):
        prepare_runs(changed, fresh=False, display=NullDisplay())


def test_text_and_locks_are_checked_before_training(folder: Path) -> None:
    found = runs(folder)
    with RunLock(found[2].folder.path), pytest.raises(BusyError, match="seed-2"):
        prepare_runs(found, fresh=False, display=NullDisplay())
    (folder / "train.de").unlink()
    with pytest.raises(MissingInputError, match=r"train.de: no such file"):
        prepare_runs(runs(folder, "name=other"), fresh=True, display=NullDisplay())
