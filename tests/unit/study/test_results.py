"""Results of a study: means, standard deviations, significance, failures, in every form; mean learning curves."""

from __future__ import annotations

import csv
import io
import json
import statistics
from dataclasses import replace
from pathlib import Path

import pytest
from sacrebleu.metrics.bleu import BLEU

from mtkit.evaluation.comparison import compare
from mtkit.plot.curves import LearningCurves
from mtkit.study.load import Study
from mtkit.study.results import StudyResults, as_csv, as_json, cell_rows, compare_runs, markdown, study_table
from mtkit.study.run import mean_curves, report_study, results_page
from mtkit.study.runs import RunState, bleu_of_length_groups, group_names, runs_of
from tests.toy.studies import finish, sentences, toy_corpus, toy_study, translated

REF = translated(sentences(40, 2))
PRE = {1: [line.replace("und", "oder") for line in REF], 2: [line.replace("große", "alte") for line in REF]}
POST = {1: [line.replace("der", "die") for line in PRE[1]], 2: PRE[2]}


@pytest.fixture
def study(tmp_path: Path) -> Study:
    """pre has two finished runs, post one finished and one failed run, late has not started."""
    toy_corpus(tmp_path)
    study = toy_study(tmp_path, "variants.late={model: {d_ff: 16}}", "bleu_by_length=[4, 8]")
    for run in runs_of(study, tmp_path / "runs"):
        if run.variant == "pre":
            finish(run, PRE[run.seed], bleu=20.0 + run.seed, loss=2.0 * run.seed, speed=1000.0 * run.seed)
        elif run.label == "post, seed 1":
            finish(run, POST[1], bleu=15.0, loss=3.0)
        elif run.variant == "post":
            run.folder.path.mkdir(parents=True)
            run.note_failure("loss nan\nat update 3")
    return study


@pytest.fixture
def results(study: Study, tmp_path: Path) -> StudyResults:
    return compare_runs(study, runs_of(study, tmp_path / "runs"))


def test_mean_and_standard_deviation_are_over_the_seeds(results: StudyResults) -> None:
    pre, post, late = results.rows
    assert pre.metrics["bleu"].values == [21.0, 22.0]
    assert pre.metrics["bleu"].std == statistics.stdev([21.0, 22.0])
    assert pre.metrics["loss"].values == [2.0, 4.0]  # at the best update, not at the last
    assert pre.metrics["lines_per_second"].mean == 10.0
    assert post.metrics["bleu"].std is None
    assert (pre.parameters, late.parameters, late.metrics) == (1234, None, {})
    assert [row.count(RunState.finished) for row in results.rows] == [2, 1, 0]
    assert results.failures() == ["post, seed 2: loss nan"]


def test_each_seed_is_tested_against_the_baselines_run_of_that_seed(results: StudyResults) -> None:
    expected = compare({"pre": PRE[1], "post": POST[1]}, [REF], ["bleu"], tokenize="13a")
    assert results.rows[1].p_values == {1: expected.p_values["bootstrap"]["bleu"]["post"]}
    assert results.rows[0].p_values == {}
    bleu = expected.scores["pre"].values["bleu"]
    assert results.signature == f"1,000 samples, seed 12345; {bleu.signature}"


@pytest.mark.whole
def test_systems_that_do_not_translate_are_not_tested(study: Study, tmp_path: Path) -> None:
    runs = runs_of(study, tmp_path / "runs")
    for bleu, tested in ((0.04, False), (1.2, True)):
        for run in runs:
            if run.variant == "pre":
                finish(run, PRE[run.seed], bleu=0.05, loss=2.0)
        finish(next(run for run in runs if run.label == "post, seed 1"), POST[1], bleu=bleu, loss=3.0)
        found = compare_runs(study, runs)
        assert (cell_rows(found)[1][-2] == "-") != tested
        assert "p of two systems below 1 BLEU is not shown: neither translates." in markdown(found)


def test_bleu_of_short_and_long_sentences(results: StudyResults) -> None:
    srcs = sentences(40, 2)
    assert group_names([4, 8]) == ["1-4", "5-8", "over 8"]
    found = bleu_of_length_groups(srcs, PRE[1], REF, [4, 8], tokenize="13a")
    chosen = [number for number, src in enumerate(srcs) if 5 <= len(src.split()) <= 8]
    of_these = BLEU().corpus_score([PRE[1][number] for number in chosen], [[REF[number] for number in chosen]])
    assert found["5-8"] == of_these.score
    assert results.rows[0].metrics["bleu 5-8"].values[0] == of_these.score
    assert results.lines_by_length["5-8"] == len(chosen)
    assert sum(results.lines_by_length.values()) == len(srcs)
    assert "over 8" not in bleu_of_length_groups(["a b"], ["a"], ["a"], [4, 8], tokenize="13a")


def test_the_table_in_every_form(results: StudyResults) -> None:
    cells = cell_rows(results)
    assert cells[0][:3] == ["pre", "1,234", "21.50 ± 0.71"]
    assert cells[0][-3:] == ["10", "baseline", "2"]
    assert cells[1][-1] == "1, 1 failed"
    assert cells[2] == ["late", *[""] * (len(cells[0]) - 2), "0, 2 unfinished"]
    table = study_table(results)
    assert [len(table.rows), len(table.headings)] == [3, len(cells[0])]
    lines = markdown(results).split("\n")
    assert "| BLEU | BLEU 1-4 | BLEU 5-8 | BLEU over 8 | loss |" in lines[2]
    assert {line.count("|") for line in lines[2:7]} == {len(cells[0]) + 1}
    assert lines[-2] == "- failed: post, seed 2: loss nan"
    read = list(csv.DictReader(io.StringIO(as_csv(results))))
    assert float(read[0]["bleu mean"]) == 21.5
    assert float(read[0]["bleu std"]) == statistics.stdev([21.0, 22.0])
    assert (read[2]["bleu mean"], read[2]["finished"], read[1]["failed"]) == ("", "0", "1")
    assert read[1]["p seed 2"] == ""
    found = json.loads(json.dumps(as_json(results), allow_nan=False))
    assert found["variants"]["pre"]["runs"]["2"]["bleu"] == 22.0
    assert found["variants"]["post"]["runs"]["2"] == {"state": "failed", "reason": "loss nan\nat update 3"}


def test_tables_and_a_page_are_written_beside_the_runs(study: Study, tmp_path: Path) -> None:
    made = report_study(study, tmp_path / "runs")
    assert [path.name for path in made.files] == [f"results.{suffix}" for suffix in ("md", "csv", "json", "html")]
    assert (tmp_path / "runs" / "results.md").read_text() == markdown(made.results)
    assert (tmp_path / "runs" / "results.csv").read_text() == as_csv(made.results)
    assert (tmp_path / "runs" / "results.html").read_text() == results_page(made.results)


def test_the_page_has_a_curve_by_length_with_a_band_of_the_seeds(results: StudyResults) -> None:
    text = results_page(results)
    assert "words of the source: 1-4, 5-8, over 8" in text
    by_length = text[text.index("BLEU by source length") :]
    assert by_length.count("<polyline") == 2  # late has not started
    assert by_length.count("<polygon") == 1  # post has one seed
    assert "BLEU by source length" not in results_page(replace(results, lines_by_length={}))


def test_a_study_of_failed_runs_has_a_table(tmp_path: Path) -> None:
    toy_corpus(tmp_path)
    study = toy_study(tmp_path)
    for run in runs_of(study, tmp_path / "runs"):
        run.folder.path.mkdir(parents=True)
        run.note_failure("out of memory")
    made = report_study(study, tmp_path / "runs")
    assert [path.name for path in made.files] == [f"results.{suffix}" for suffix in ("md", "csv", "json", "html")]
    assert made.results.signature == ""
    assert len(made.results.failures()) == 4


def test_the_mean_curve_has_the_updates_that_all_runs_have() -> None:
    one = LearningCurves("a", nll=[(2, 4.0), (4, 3.0), (6, 1.0)], bleu=[(2, 1.0)])
    two = LearningCurves("b", nll=[(2, 2.0), (4, 2.0)], bleu=[(2, 3.0)])
    both = mean_curves("both", [one, two])
    assert (both.nll, both.bleu) == ([(2, 3.0), (4, 2.5)], [(2, 2.0)])
    assert mean_curves("none", []) == LearningCurves("none")
