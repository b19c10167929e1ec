"""Damage in the run folders of a study: a damaged run is unfinished, and no number comes from a damaged line."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from mtkit.errors import DataError
from mtkit.io.records import write_record
from mtkit.pipeline.run_folder import RunFolder
from mtkit.study import runs as study_runs
from mtkit.study.load import Study
from mtkit.study.runs import CACHE_FILE, RunState, StudyRun, free_running_loss, run_result, runs_of
from tests.toy.studies import finish, sentences, toy_corpus, toy_study, translated


@pytest.fixture
def study(tmp_path: Path) -> Study:
    toy_corpus(tmp_path)
    return toy_study(tmp_path)


@pytest.fixture
def run(study: Study, tmp_path: Path) -> StudyRun:
    run = runs_of(study, tmp_path / "runs")[0]
    finish(run, translated(sentences(40, 2)), bleu=20.0, loss=2.0)
    return run


def flip(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("name", ["report", "recipe"])
def test_a_run_with_a_damaged_record_is_unfinished(run: StudyRun, study: Study, name: str) -> None:
    assert run_result(run, study.config).state == RunState.finished
    flip(getattr(run.folder, name), 30)
    assert not run.is_finished()
    assert run_result(run, study.config).state == RunState.unfinished


def test_a_damaged_line_of_the_log_gives_no_loss_rather_than_another(run: StudyRun, study: Study) -> None:
    assert run_result(run, study.config).metrics["loss"] == 2.0
    flip(run.folder.log, run.folder.log.read_bytes().index(b'"nll": 2.0') + 7)
    metrics = run_result(run, study.config).metrics
    assert "loss" not in metrics
    assert metrics["bleu"] == 20.0
    flip(run.folder.log, run.folder.log.read_bytes().index(b'"parameters"') + 1)
    assert run_result(run, study.config).parameters is None


def test_a_damaged_record_of_a_failure_is_a_failure(run: StudyRun) -> None:
    run.note_failure("loss nan")
    flip(run.folder.path / "failed.json", 5)
    assert "failed.json: damaged" in str(run.failure())


def test_a_damaged_cache_is_measured_again(run: StudyRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """So is one of another validation set."""
    monkeypatch.setattr(RunFolder, "open_valid", lambda self, recipe: [])
    monkeypatch.setattr(study_runs, "hash_file", lambda path: "0")
    measured = hashlib.sha256(b"0").hexdigest()
    write_record(run.folder.path / CACHE_FILE, {"measured": measured, "nats_per_token": 3.0})
    assert free_running_loss(run.folder) == 3.0
    flip(run.folder.path / CACHE_FILE, 40)
    with pytest.raises(DataError, match=r"config\.json"):  # the toy has no model to measure
        free_running_loss(run.folder)
    write_record(run.folder.path / CACHE_FILE, {"measured": "of another set", "nats_per_token": 3.0})
    with pytest.raises(DataError, match=r"config\.json"):
        free_running_loss(run.folder)
