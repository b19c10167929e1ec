"""`mtkit report` on toy runs: tables, the page, seeds of one system, runs that are not finished, and errors."""

from __future__ import annotations

import itertools
import json
import shutil
from pathlib import Path

import pytest

from mtkit.cli import entry
from tests.toy.runs import run, write_all


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with runs of seeds 1 and 2, and one whose scores and end are still missing."""
    folder = tmp_path_factory.mktemp("report")
    write_all(folder)
    for seed in (1, 2):
        run(folder, f"training.seed={seed}", kind="transformer")
        (folder / "run").rename(folder / f"seed-{seed}")
    shutil.copytree(folder / "seed-1", folder / "begun")
    for name in ("report.json", "hyps/toy.txt"):
        (folder / "begun" / name).unlink()
    recipe = (folder / "seed-1" / "recipe.yaml").read_text()
    assert "seed: 1" in recipe
    return folder


def report(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    assert entry.execute(["report", *map(str, words)]) == 0
    return capsys.readouterr().out


def test_tables_of_seeds_and_of_a_run_that_goes_on(runs, tmp_path, capsys) -> None:
    out = report(capsys, runs / "seed-1", runs / "seed-2", runs / "begun", "--json", tmp_path / "j")
    assert "4 (not finished)" in out
    assert "Seeds on toy" in out
    assert "seed-2 against seed-1" in out
    assert "Recipes differ in" not in out  # the seed alone
    content = json.loads((tmp_path / "j").read_text())
    assert {*content["test"]["toy"]} == {"seed-1", "seed-2"}
    assert "bleu_p_randomisation" in content["test"]["toy"]["seed-2"]


def test_page_has_curves_lines_data_and_recipe(runs, tmp_path, capsys) -> None:
    page = tmp_path / "r.html"
    report(capsys, runs / "seed-1", runs / "seed-2", "--html", page)
    text = page.read_text()
    for shown in ("<polyline", "<polygon", "Worst lines of seed-1", "Cross-entropy", "pairs kept", "d_model: 8", "± "):
        assert shown in text, shown
    assert "<script" not in text
    assert len(text) < 200_000


def test_forms_of_one_run(runs, capsys) -> None:
    assert r"\begin{tabular}" in report(capsys, runs / "seed-1", "--format", "latex")
    assert "| metric | run |" in report(capsys, runs / "seed-1", "--format", "markdown")


def test_what_is_no_run_is_named(runs, tmp_path, capsys) -> None:
    assert entry.execute(["report", str(tmp_path)]) == 66
    assert "not a run folder" in capsys.readouterr().err
    assert entry.execute(["report", str(runs / "seed-1"), str(runs / "seed-1")]) == 2


def test_watch_writes_the_page_again_while_a_training_goes_on(runs, tmp_path, capsys, monkeypatch) -> None:
    page, locked = tmp_path / "w.html", itertools.chain([True, True], itertools.repeat(False))
    seen = []
    monkeypatch.setattr("mtkit.training.monitoring.log.is_locked", lambda run: next(locked))
    monkeypatch.setattr("time.sleep", lambda seconds: seen.append(page.read_text()))
    assert entry.execute(["watch", str(runs / "begun"), "--html", str(page)]) == 0
    assert len(seen) == 2  # the second wait finds nothing new
    assert '<meta http-equiv="refresh" content="10">' in seen[0]
    assert all("<polyline" in text for text in (*seen, page.read_text()))
    assert "refresh" not in page.read_text()
    assert entry.execute(["watch", str(runs / "begun")]) == 0
