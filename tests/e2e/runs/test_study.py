"""`mtkit study` from the file to the table, with two updates of tiny models in separate processes."""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path

import pytest

from mtkit.cli import entry
from mtkit.pipeline import estimate
from mtkit.pipeline.estimate import MicroBatchCost
from mtkit.training.monitoring.meter import CpuTimes
from tests.toy.studies import toy_corpus

ROOT = Path(__file__).parents[3]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    toy_corpus(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    return tmp_path


@pytest.mark.whole
def test_a_study_runs_once_and_is_then_kept(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["study", "study.yaml", "seeds=[1]", "training.max_updates=2", "--parallel", "2"]
    assert entry.execute([*command, "exposure_bias=true"]) == 0
    captured = capsys.readouterr()
    assert "post, seed 1: done" in captured.err
    assert "baseline" in captured.out
    found = json.loads((folder / "runs" / "norms" / "results.json").read_text())
    assert [run["state"] for row in found["variants"].values() for run in row["runs"].values()] == [
        "finished",
        "finished",
    ]
    pre = found["variants"]["pre"]
    report = json.loads((folder / "runs" / "norms" / "pre" / "seed-1" / "report.json").read_text())
    assert pre["metrics"]["bleu"]["mean"] == report["test"]["toy"]["bleu"]
    assert pre["metrics"]["free_running_loss"]["mean"] > 0
    assert 0 <= found["variants"]["post"]["p_values"]["1"] <= 1

    assert entry.execute(command) == 0
    assert "started" not in capsys.readouterr().err
    assert "| post |" in (folder / "runs" / "norms" / "results.md").read_text()


@pytest.mark.whole
def test_variants_begin_with_the_models_of_others_and_learn_from_them(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A denoising variant trained on other text initialises one variant; another is distilled from a third."""
    denoising = "corpus: {train: [{text: train.en}, {text: train.de}], noise: {kind: bart}, valid: null}"
    (folder / "study.yaml").write_text(
        "name: norms\nbase: toy.yaml\nseeds: [1]\nvariants:\n"
        f"  scratch: {{}}\n  denoising:\n    {denoising}\n  continued: {{}}\n"
        "  student: {training: {objective: {kind: distillation}}}\n"
        "init_from_variant: {continued: denoising}\nteacher_variant: {student: scratch}\n"
    )
    command = ["study", "study.yaml", "training.max_updates=2", "--parallel", "2"]
    assert entry.execute(command) == 0, capsys.readouterr().err
    runs = folder / "runs" / "norms"
    log = (runs / "continued" / "seed-1" / "log.jsonl").read_text()
    assert '"init_from"' in log
    capsys.readouterr()
    assert entry.execute(command) == 0
    assert "started" not in capsys.readouterr().err


@pytest.mark.slow
def test_fresh_trains_all_variants_again(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["study", "study.yaml", "seeds=[1]", "training.max_updates=2"]
    for words in ([], ["--fresh"]):
        assert entry.execute([*command, *words]) == 0
        assert capsys.readouterr().err.count("done") == 2


def test_a_report_of_no_runs_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.execute(["study", "study.yaml", "--report-only", "--run-dir", "nothing"]) == 66
    captured = capsys.readouterr()
    assert f"{folder / 'nothing'}: none of the 4 runs of this study has finished with these settings" in captured.err
    assert captured.out == ""
    assert not (folder / "nothing").exists()


def test_a_dry_run_counts_epochs_where_the_batch_size_is_chosen(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(estimate, "find_max_batch_tokens", lambda *_: 64)
    overrides = ["training.max_epochs=1", "training.batch_tokens=auto"]
    assert entry.execute(["study", "study.yaml", *overrides, "--dry-run"]) == 0
    assert "4 runs, about " in capsys.readouterr().out


def test_a_dry_run_needs_no_corpus(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for text in folder.glob("*.[de][en]"):
        text.unlink()
    assert entry.execute(["study", "study.yaml", "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert "parameters" in out
    assert "4 runs, about " in out
    assert not (folder / "runs").exists()


def test_a_dry_run_measures_equal_models_once(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    costs = iter([MicroBatchCost(seconds=150.0, free_seconds=15.0, activations=0)] * 2)
    monkeypatch.setattr(estimate, "measure_cost", lambda *_: next(costs))
    times = itertools.count(0.0, 10.0)
    monkeypatch.setattr(estimate, "read_cpu_times", lambda: CpuTimes(next(times), 2 * next(times), 0.0))
    variants = "variants={a: {}, b: {model.dropout: 0.3}, c: {model: {d_ff: 16}}}"
    assert entry.execute(["study", "study.yaml", variants, "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert out.count("60 seconds") == 3  # 4 updates on free cores
    assert "6 runs, about 6 minutes of training" in out
    with pytest.raises(StopIteration):
        next(costs)


def test_a_dry_run_counts_the_teacher(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    distilled = "variants.post.training.objective={kind: distillation, cosine: 0}"
    assert entry.execute(["study", "study.yaml", distilled, "teacher_variant={post: pre}", "--dry-run"]) == 0
    assert "4 runs, about " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["study.yaml", "--dry-run", "--fresh"], 2, "are mutually exclusive"),
        (["study.yaml", "--devices", "cuda:0", "--parallel", "2"], 2, "omit --parallel"),
        (["study.yaml", "--devices", "cpu"], 2, "--parallel N divides the CPU"),
        (["study.yaml", "sedes=[1]"], 78, "sedes: no such key; did you mean seeds?"),
        (["nonsense"], 66, "no such study"),
        (["toy.yaml"], 78, "error: toy.yaml: a recipe, not a study; run it with mtkit run toy.yaml, or compare"),
        (["toy.yaml", "--dry-run"], 78, "with base: toy.yaml\n"),
    ],
)
def test_errors(folder: Path, words: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.execute(["study", *words]) == code
    assert message in capsys.readouterr().err
