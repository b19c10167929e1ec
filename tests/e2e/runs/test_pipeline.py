"""All stages of a run over a toy corpus: every kind of model, skipped stages, refused changes."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from mtkit.errors import BusyError, DataError, MissingInputError, RecipeError
from mtkit.io.lock import RunLock
from mtkit.io.records import read_record
from mtkit.pipeline import stages
from mtkit.pipeline.estimate import dry_run_report
from mtkit.pipeline.open_run import Run
from mtkit.pipeline.prepare_corpus import PreparedCorpora, prepare_corpus
from mtkit.recipe.recipe import load_recipe
from mtkit.text.tokenizer import TokenizerPair
from mtkit.training.monitoring.meter import Stopwatch
from mtkit.translate.load import load_translator
from tests.toy.runs import MODELS, RECIPE, RecordingDisplay, run, sentences, toy, write_all, write_pair


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_all(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("with_report")
@pytest.mark.parametrize("kind", MODELS)
def test_all_stages_for_every_kind_of_model(folder: Path, kind: str) -> None:
    report, _ = run(folder, kind=kind)
    run_folder = folder / "run"
    assert report.run_dir == run_folder
    for name in (
        "recipe.yaml",
        "corpus",
        "checkpoints/update-00000004",
        "model",
        "log.jsonl",
        "report.html",
    ):
        assert (run_folder / name).exists(), name
    page = (run_folder / "report.html").read_text()
    assert ("Attention over the source" in page) == (kind != "rnn")
    assert all(block in page for block in ("Cross-entropy", "Test set toy", "By gradients", "log-probability"))
    written = read_record(run_folder / "report.json", remedy="")
    assert written == report.content
    assert written["test"]["toy"].keys() >= {
        "bleu",
        "bleu_signature",
        "chrf",
        "ter",
        "beam_size",
        "compute_type",
        "seconds",
    }
    assert written["train"]["updates"] == 4
    hyps = (run_folder / "hyps" / "toy.txt").read_text()
    lines = sentences(7, 2)
    assert hyps.count("\n") == len(lines)
    assert "".join(f"{hyp}\n" for hyp in load_translator(run_folder).translate_lines(lines)) == hyps
    assert sum(line.startswith("  hyp ") for line in report.lines) == 6
    assert any(line.startswith("toy: BLEU ") for line in report.lines)
    assert "| toy |" in (run_folder / "model" / "README.md").read_text()
    assert load_recipe(str(run_folder / "recipe.yaml")) == toy(folder, kind=kind)


def test_unchanged_stages_are_skipped_and_reported(folder: Path) -> None:
    first, _ = run(folder)
    before = (folder / "run" / "model" / "model.safetensors").stat().st_mtime_ns
    log = (folder / "run" / "log.jsonl").read_bytes()
    second, display = run(folder)
    stages_kept = {"tokenizer", "train.0", "valid", "lexicon", "training", "translate toy"}
    assert {stage for stage, result in display.results.items() if result == "unchanged, kept"} == stages_kept
    assert second.lines[0] == "training is already finished, after 4 updates; --fresh starts over"
    assert (folder / "run" / "log.jsonl").read_bytes() == log
    assert "begin" not in display.names
    assert second.content == first.content
    assert (folder / "run" / "model" / "model.safetensors").stat().st_mtime_ns == before


def test_a_changed_recipe_is_refused_and_nothing_is_lost(folder: Path) -> None:
    run(folder)
    model = (folder / "run" / "model" / "model.safetensors").read_bytes()
    with pytest.raises(RecipeError) as caught:
        run(folder, "training.patience=3", "model.dropout=0.1", "tokenizer.character_coverage=0.99")
    lines = str(caught.value).split("\n")
    assert lines[0].endswith("a training was started here with another recipe; changed:")
    assert lines[1:4] == [
        "  tokenizer.character_coverage: 1.0, now 0.99",
        "  model.dropout: 0.3, now 0.1",
        "these changes are allowed: training.patience",
    ]
    assert "--fresh" in lines[-1]
    assert f"training.init_from={folder / 'run'} begins with this model" in lines[-1]
    with pytest.raises(RecipeError, match=r'model.kind: "transformer", now "rnn"'):
        run(folder, kind="rnn")
    assert (folder / "run" / "model" / "model.safetensors").read_bytes() == model
    assert load_recipe(str(folder / "run" / "recipe.yaml")).model.dropout == 0.3


def test_fresh_starts_over(folder: Path) -> None:
    run(folder)
    report, display = run(folder, "training.max_updates=2", "training.label_smoothing=0.2", fresh=True)
    assert display.results["tokenizer"] == "unchanged, kept"
    assert report.content["train"]["updates"] == 2
    assert not (folder / "run" / "checkpoints" / "update-00000004").exists()


def test_training_continues_after_harmless_changes(folder: Path) -> None:
    run(folder)
    report, display = run(folder, "training.max_updates=6", "search.beam_size=1", "evaluation.metrics=[chrf, chrf++]")
    assert {"recipe", "resume"} <= set(display.names)
    assert any("  chrF2++ " in line for line in report.lines)
    assert report.content["train"]["updates"] == 6
    assert report.content["test"]["toy"]["beam_size"] == 1
    assert "bleu" not in report.content["test"]["toy"]


def test_scores_of_a_model_that_was_trained_further_are_removed(folder: Path) -> None:
    stages.run(toy(folder), run_dir=folder / "run")
    further = toy(folder, "training.max_updates=6")
    report = stages.train(further, run_dir=folder / "run")
    assert (report.content["train"]["updates"], report.content.get("test")) == (6, None)
    assert stages.run(further, run_dir=folder / "run").content["test"].keys() == {"toy"}


def test_a_changed_search_translates_again_without_training(folder: Path) -> None:
    run(folder)
    _, display = run(folder, "search.beam_size=1")
    assert "begin" not in display.names
    assert display.results["translate toy"] != "unchanged, kept"


def test_changed_text_is_used_until_training_is_started(folder: Path) -> None:
    recipe = toy(folder)
    stages.preprocess(recipe, run_dir=folder / "run")
    write_pair(folder, "train", sentences(50, 4))
    display = RecordingDisplay()
    report = stages.preprocess(recipe, run_dir=folder / "run", display=display)
    assert display.results["train.0"].startswith("50 of 50 pairs kept")
    assert report.lines[0].startswith(f"{folder / 'run' / 'corpus' / 'train.0'}: 50 pairs, ")
    stages.train(recipe, run_dir=folder / "run")
    write_pair(folder, "train", sentences(40, 5))
    texts = f"{folder / 'train.en'}, {folder / 'train.de'}"
    with pytest.raises(RecipeError, match=rf"run: {texts} changed since this training was started; .* --fresh"):
        stages.train(recipe, run_dir=folder / "run")
    assert stages.train(recipe, run_dir=folder / "run", fresh=True).content["train"]["updates"] == 4


def test_a_changed_valid_set_and_moved_text_are_harmless(folder: Path) -> None:
    run(folder)
    write_pair(folder, "valid", sentences(5, 3))
    moved = folder / "moved.en"
    (folder / "train.en").rename(moved)
    _, display = run(folder, f"corpus.train.0.src={moved}")
    assert display.results["tokenizer"] == display.results["train.0"] == "unchanged, kept"
    assert display.results["valid"].startswith("5 of 5")


def test_a_removed_corpus_is_deleted(folder: Path) -> None:
    two = toy(
        folder, "corpus.train.1.src=" + str(folder / "valid.en"), "corpus.train.1.tgt=" + str(folder / "valid.de")
    )
    stages.preprocess(two, run_dir=folder / "run")
    assert (folder / "run" / "corpus" / "train.1").is_dir()
    stages.preprocess(toy(folder), run_dir=folder / "run")
    assert not (folder / "run" / "corpus" / "train.1").exists()


def test_without_valid_and_test_sets(folder: Path) -> None:
    report, _ = run(folder, "corpus.valid=null", "corpus.test={}")
    assert report.content["train"]["best_update"] is None
    assert "test" not in report.content or not report.content["test"]
    with pytest.raises(RecipeError, match=r"corpus.test: there is no test set to score"):
        stages.evaluate_run(folder / "run")


def test_training_that_runs_out_of_time_can_be_resumed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def two_hours(run: Run, tokenizers: TokenizerPair) -> PreparedCorpora:
        object.__setattr__(run, "since_start", Stopwatch(7200.0))
        return prepare_corpus(run, tokenizers)

    with monkeypatch.context() as slow:
        slow.setattr(stages, "prepare_corpus", two_hours)
        report = stages.train(toy(folder, "training.max_hours=1"), run_dir=folder / "run")
    assert report.lines == ["not finished: 1 of 4 updates; run the same command again to resume"]
    with pytest.raises(MissingInputError, match="this run has no model yet"):
        stages.evaluate_run(folder / "run")
    report = stages.train(toy(folder), run_dir=folder / "run")
    assert report.content["train"]["updates"] == 4


def test_inputs_are_checked_before_any_work(folder: Path) -> None:
    (folder / "test.de").unlink()
    (folder / "valid.en").unlink()
    with pytest.raises(MissingInputError) as missing:
        run(folder)
    assert str(missing.value) == f"{folder}/valid.en: no such file\n{folder}/test.de: no such file"
    (folder / "test.de").mkdir()
    with pytest.raises(MissingInputError, match=r"test\.de: a folder, where"):
        run(folder)
    (folder / "test.de").rmdir()
    write_pair(folder, "test", ["the dog"])
    write_pair(folder, "valid", ["the dog"])
    (folder / "train.de").write_text("Hund\n")
    (folder / "test.en").write_text("the\ndog\n")
    with pytest.raises(DataError) as unequal:
        run(folder)
    assert str(unequal.value).count("line has no partner") == 2
    assert not (folder / "run").exists()


def test_a_locked_run_folder_is_refused(folder: Path) -> None:
    with RunLock(folder / "run"), pytest.raises(BusyError, match=r"locked by process "):
        run(folder)


def test_evaluating_another_folder_is_refused(folder: Path) -> None:
    with pytest.raises(MissingInputError, match=r"not a run folder; it has no recipe"):
        stages.evaluate_run(folder)


@pytest.mark.parametrize("kind", MODELS)
def test_a_dry_run_needs_no_corpus(tmp_path: Path, kind: str) -> None:
    (tmp_path / "toy.yaml").write_text(RECIPE)
    text = dry_run_report(toy(tmp_path, kind=kind))
    lines = text.split("\n")
    assert lines[0].startswith(f"toy: {kind}, ")
    assert lines[1].startswith("memory of training: about ")
    assert re.match("time of training: (about|less than) ", lines[2])
    assert not re.search(r"\b1 \w+s of", lines[2])
    assert not (tmp_path / "runs").exists()


RECORDS = ["recipe.yaml", "report.json", "fingerprints.json", "version.json", "log.jsonl"]


@pytest.mark.whole
@pytest.mark.parametrize("name", RECORDS)
def test_a_pipe_or_link_in_place_of_a_record_is_refused_at_once(folder: Path, name: str) -> None:
    run(folder)
    record, elsewhere = folder / "run" / name, folder / "elsewhere"
    record.rename(elsewhere)
    content = elsewhere.read_bytes()
    os.mkfifo(record)
    with pytest.raises(MissingInputError, match=f"{name}: a pipe or device, where a file is expected"):
        run(folder)
    record.unlink()
    record.symlink_to(elsewhere)
    with pytest.raises(MissingInputError, match=f"{name}: a link, where a file of the run is expected"):
        run(folder)
    assert elsewhere.read_bytes() == content


@pytest.mark.parametrize("name", ["model", "checkpoints", "tokenizer", "corpus", "hyps"])
def test_a_file_in_place_of_a_folder_is_refused_before_any_work(folder: Path, name: str) -> None:
    foreign = folder / "run" / name
    foreign.parent.mkdir()
    foreign.write_text("notes of somebody\n")
    with pytest.raises(MissingInputError, match=f"run/{name}: a file, where a folder of the run is expected; move it"):
        run(folder)
    assert foreign.read_text() == "notes of somebody\n"
    assert [path.name for path in foreign.parent.iterdir()] == [name]


def test_a_pipe_as_translation_is_replaced(folder: Path) -> None:
    run(folder)
    hyps = folder / "run" / "hyps" / "toy.txt"
    expected = hyps.read_bytes()
    hyps.unlink()
    os.mkfifo(hyps)
    run(folder)
    assert hyps.read_bytes() == expected


def test_a_linked_translation_is_not_written_through_the_link(folder: Path) -> None:
    run(folder)
    other, hyps = folder / "other.txt", folder / "run" / "hyps" / "toy.txt"
    expected = hyps.read_bytes()
    other.write_text("text of somebody else\n")
    hyps.unlink()
    hyps.symlink_to(other)
    run(folder)
    assert other.read_text() == "text of somebody else\n"
    assert not hyps.is_symlink()
    assert hyps.read_bytes() == expected
