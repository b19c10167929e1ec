"""Measurement of a claim from the files of finished runs."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import pytest
from sacrebleu.metrics.bleu import BLEU

from mtkit.cli import entry
from mtkit.errors import DataError, RecipeError
from mtkit.evidence.claim import CheckConfig, Claim, CompressionConfig, SystemConfig, read_claim
from mtkit.evidence.measure import Measurements, measure_claim, study_folder
from mtkit.evidence.records import Records, seconds_to_bleu
from mtkit.evidence.results import read_lines_by_name, read_result
from mtkit.io.records import record_line, write_record
from mtkit.study.runs import StudyRun, runs_of
from tests.toy.studies import finish, sentences, toy_corpus, translated

CLAIM = """\
claim: pre is better
source: nobody 2026
url: https://example.org
scale: adequate
study: study.yaml
minutes: 1
checks:
  - {of: pre, against: post, expect: higher}
  - {of: pre, against: post, expect: lower, metric: loss, margin: 0.1}
  - {of: pre, against: post, expect: higher, metric: tokens_per_second, ratio: true}
  - {of: pre, against: post, expect: higher, longer_than: 5}
"""
REF = translated(sentences(40, 2))
PRE = {seed: [line.replace("und", "oder") for line in REF] for seed in (1, 2)}
POST = {1: [line.replace("der", "die") for line in REF], 2: [line.replace("Hund", "Kater") for line in REF]}


@pytest.fixture
def claim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Claim:
    monkeypatch.chdir(tmp_path)
    toy_corpus(tmp_path)
    (tmp_path / "claim.yaml").write_text(CLAIM)
    claim = read_claim("claim.yaml", [])
    for run in runs_of(claim.study, study_folder(claim, None)):
        hyps = (PRE if run.variant == "pre" else POST)[run.seed]
        is_pre = run.variant == "pre"
        finish(run, hyps, bleu=1.0, loss=2.0 if is_pre else 2.5, speed=1000.0 * run.seed * (2 if is_pre else 1))
    return claim


def bleu(hyps: list[str]) -> float:
    return BLEU().corpus_score(hyps, [REF]).score


def test_values_of_both_systems(claim: Claim, tmp_path: Path) -> None:
    result = measure_claim(claim, study_folder(claim, None), Records(tmp_path / "results"))
    by_bleu, by_loss, by_speed, by_length = result.checks
    assert by_bleu.of == {seed: pytest.approx(bleu(PRE[seed])) for seed in (1, 2)}
    assert by_bleu.against == {seed: pytest.approx(bleu(POST[seed])) for seed in (1, 2)}
    assert by_loss.effect.mean == -0.5  # of the best update
    assert by_speed.effect.mean == pytest.approx(100 * math.log(2))
    # of the processor, which computed for half of the time
    assert by_speed.of == {seed: pytest.approx(1000.0 * seed * 2 * 2) for seed in (1, 2)}
    assert by_length.of != by_bleu.of
    assert not by_bleu.paired
    assert (result.runs, result.parameters) == (4, {"pre": 1234, "post": 1234})
    assert result.environment["training_precision"] == "float32"


def test_a_training_on_a_gpu_names_the_gpu(claim: Claim, tmp_path: Path) -> None:
    run = runs_of(claim.study, study_folder(claim, None))[0]
    report = run.folder.read_report()
    report["train"]["numerics"] = {"threads": [1], "matmul": "blas", "device": "NVIDIA H100"}
    write_record(run.folder.report, report)
    environment = Records(tmp_path / "results").of(run).environment
    assert (environment["processor"], environment["instructions"]) == ("NVIDIA H100", [])


def test_a_record_makes_the_run_folder_unnecessary(claim: Claim, tmp_path: Path) -> None:
    folder, records = study_folder(claim, None), Records(tmp_path / "results")
    before = measure_claim(claim, folder, records)
    runs = Measurements(claim, folder, records).all_runs
    file = tmp_path / "results" / "trainings" / "norms.jsonl"
    assert [*read_lines_by_name(file)] == [f"{variant}-seed-{seed}" for variant in ("post", "pre") for seed in (1, 2)]
    shutil.rmtree(folder)
    measurements = Measurements(claim, folder, records)
    assert all(map(measurements.is_measured, runs))
    assert measure_claim(claim, folder, records) == before
    changed = read_claim("claim.yaml", ["training.max_updates=5"])
    with pytest.raises(DataError, match="no finished run"):
        measure_claim(changed, folder, records)
    recipe = read_lines_by_name(file)["pre-seed-1"]["recipe"]
    for damaged in ("[]", json.dumps({"name": "pre-seed-1", "recipe": recipe})):
        file.write_text(damaged)
        with pytest.raises(DataError, match=r"norms.jsonl:.* not a (result|record) of mtkit reproduce"):
            measure_claim(claim, folder, records)


def test_studies_share_the_records_of_equal_trainings(claim: Claim, tmp_path: Path) -> None:
    records = Records(tmp_path / "results")
    measured = measure_claim(claim, study_folder(claim, None), records)
    other = read_claim("claim.yaml", ["name=other"])
    folder = study_folder(other, None)
    assert folder.name == "other"
    assert measure_claim(other, folder, records).checks == measured.checks
    assert not folder.exists()
    initialised = read_claim("claim.yaml", ["name=other", "init_from_variant={pre: post}"])
    found = {run.variant for run in runs_of(initialised.study, folder) if records.find(run)}
    assert found == {"post"}


def test_a_record_is_found_in_whatever_folder_the_runs_are(claim: Claim, tmp_path: Path) -> None:
    """Also in one whose name has a $, which recipes double, and letters that JSON escapes."""
    records, study = Records(tmp_path / "results"), read_claim("claim.yaml", ["init_from_variant={pre: post}"]).study
    run, moved = (runs_of(study, tmp_path / name)[-1] for name in ("norms", "Läufe in US$"))
    assert run.source is not None
    finish(run, REF, bleu=1.0, loss=2.0)
    assert records.of(run) == records.find(moved)


def test_a_training_from_another_model_is_that_of_the_other_recipe(claim: Claim, tmp_path: Path) -> None:
    """The hash of a run has that of its source: otherwise a record would outlive a change of the pre-training."""
    records = Records(tmp_path / "results")
    command = ["init_from_variant={pre: post}"]
    run = runs_of(read_claim("claim.yaml", command).study, study_folder(claim, None))[-1]
    changed = runs_of(
        read_claim("claim.yaml", [*command, "variants.post.training.ema=null"]).study, tmp_path / "norms"
    )[-1]
    finish(run, REF, bleu=1.0, loss=2.0)
    records.of(run)
    assert (run.variant, changed.variant) == ("pre", "pre")
    assert records.find(run) is not None
    assert records.find(changed) is None


def test_claims_that_are_measured_at_once_keep_each_other_s_values(claim: Claim, tmp_path: Path) -> None:
    records, others = Records(tmp_path / "results"), Records(tmp_path / "results")
    run = runs_of(claim.study, study_folder(claim, None))[0]

    def compute() -> float:
        others.value(run, "second", lambda: 2.0)
        others.statistics(run, "system", lambda: "packed")
        return 1.0

    assert records.value(run, "first", compute) == 1.0
    records.statistics(run, "other system", lambda: str(others.value(run, "third", lambda: 3.0)))
    found = records.of(run)
    assert {key: found.values[key] for key in ("first", "second", "third")} == {"first": 1, "second": 2, "third": 3}
    assert found.statistics == {"system": "packed", "other system": "3.0"}


def test_all_test_sets_are_compared_together(claim: Claim, tmp_path: Path) -> None:
    claim = read_claim("claim.yaml", ["test=[toy, other]"])
    for run in runs_of(claim.study, study_folder(claim, None)):
        finish(run, REF, bleu=1.0, loss=2.0)
    measurements = Measurements(claim, study_folder(claim, None), Records(tmp_path / "results"))
    assert len(measurements.srcs) == len(measurements.refs) == 46
    assert measurements.hyps(measurements.runs[0], "pre") == REF + REF[:6]
    hyps, refs = REF + REF[:6], REF + translated(sentences(6, 1))
    expected = BLEU().corpus_score(hyps, [refs]).score
    assert measurements.measure(claim.config.checks[0]).of == {seed: pytest.approx(expected) for seed in (1, 2)}


def test_pairs_are_compared_as_pairs(claim: Claim, tmp_path: Path) -> None:
    (tmp_path / "claim.yaml").write_text(CLAIM.replace("higher}", "higher, paired: true}", 1))
    result = measure_claim(read_claim("claim.yaml", []), study_folder(claim, None), Records(tmp_path / "results"))
    assert result.checks[0].paired
    assert [len(check.effect.spreads) for check in result.checks] == [1, 2, 2, 2]


def test_unseen_words_are_in_no_training_line(claim: Claim, tmp_path: Path) -> None:
    check = CheckConfig(of="pre", against="post", expect="higher", metric="unseen_words")
    measurements = Measurements(claim, study_folder(claim, None), Records(tmp_path / "results"))
    assert "oder" not in measurements.training_words
    assert measurements.values("pre", check) == {1: 0.0, 2: 0.0}  # oder, which no reference has
    measurements.training_words.clear()  # then all words are unseen
    shutil.rmtree(tmp_path / "results")
    assert all(50 < value < 100 for value in measurements.values("pre", check).values())


@pytest.mark.whole
@pytest.mark.parametrize(("least", "largest"), [(2, 4), (5, 10)])
def test_bleu_of_sources_with_so_many_words(claim: Claim, tmp_path: Path, least: int, largest: int) -> None:
    check = f"  - {{of: pre, against: post, expect: higher, words: [{least}, {largest}]}}\n"
    (tmp_path / "claim.yaml").write_text(CLAIM + check)
    claim = read_claim("claim.yaml", [])
    result = measure_claim(claim, study_folder(claim, None), Records(tmp_path / "results")).checks[-1]
    chosen = [index for index, line in enumerate(sentences(40, 2)) if least <= len(line.split()) <= largest]
    assert 0 < len(chosen) < 40
    ref = [REF[index] for index in chosen]
    for system, stored in ((PRE, result.of), (POST, result.against)):
        for seed, hyps in system.items():
            expected = BLEU().corpus_score([hyps[index] for index in chosen], [ref]).score
            assert stored[seed] == pytest.approx(expected)


def write_log(run: StudyRun, *events: dict[str, object]) -> None:
    run.folder.log.write_bytes(b"".join(record_line({"time": 0.0, **event}) for event in events))


def test_seconds_to_a_bleu(claim: Claim) -> None:
    run = runs_of(claim.study, study_folder(claim, None))[0]
    scores = {2: 4.0, 4: 9.0, 6: 8.0, 8: 12.0}
    times = [{"event": "train", "update": update, "processor_seconds": update / 2} for update in (2, 4, 8)]
    validations = [{"event": "validation", "update": update, "bleu": bleu} for update, bleu in scores.items()]
    write_log(run, *times, *validations)
    assert seconds_to_bleu(run, 9.0) == 2.0  # the first that reaches it, although the next one is below
    assert seconds_to_bleu(run, 9.5) == 4.0
    with pytest.raises(DataError, match=r"pre, seed 1: no validation has a BLEU of 13; lower goal"):
        seconds_to_bleu(run, 13.0)
    write_log(run, {"event": "validation", "update": 6, "bleu": 9.0})
    with pytest.raises(DataError, match=r"pre, seed 1: the log has no time of update 6; set training\.log_every"):
        seconds_to_bleu(run, 9.0)


def test_without_finished_runs_nothing_is_compared(claim: Claim, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="pre: no finished run; run mtkit reproduce first"):
        Measurements(claim, tmp_path / "empty", Records(tmp_path)).measure(claim.config.checks[0])


def test_unknown_systems_are_named(claim: Claim, tmp_path: Path) -> None:
    (tmp_path / "claim.yaml").write_text(CLAIM.replace("against: post", "against: pots"))
    with pytest.raises(RecipeError, match=r"pots: no such variant in study.yaml; did you mean post\?"):
        read_claim("claim.yaml", [])


@pytest.mark.parametrize(
    ("system", "message"),
    [
        ("{variant: pre, search: [search.beam_size=3], tag: a b}", "systems.x.tag"),
        ("{variant: pre, compress: {to: int8}, model: [model.bias=false]}", "each makes another model"),
        ("{variant: pre, compress: {to: int9}}", "systems.x.compress.to"),
        ("{variant: pre, compress: {to: int8, most_important: true}}", "most_important: has no effect with to: int8"),
        ("{variant: prae}", "prae: no such variant in study.yaml; did you mean pre"),
    ],
)
def test_invalid_systems_are_named(claim: Claim, tmp_path: Path, system: str, message: str) -> None:
    (tmp_path / "claim.yaml").write_text(f"{CLAIM}systems: {{x: {system}}}\n")
    with pytest.raises(RecipeError, match=message):
        read_claim("claim.yaml", [])


def test_metrics_of_the_trained_model_are_not_those_of_a_changed_one(claim: Claim, tmp_path: Path) -> None:
    check = "  - {of: x, against: pre, expect: higher, metric: lines_per_second}\n"
    (tmp_path / "claim.yaml").write_text(f"{CLAIM}{check}systems: {{x: {{variant: pre, compress: {{to: int8}}}}}}\n")
    with pytest.raises(RecipeError, match="lines_per_second is that of the trained models, not of x"):
        read_claim("claim.yaml", [])


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ("metric: loss, words: [1, 4]", "words: only differences of BLEU are computed by length"),
        ("metric: loss, longer_than: 4", "longer_than: only differences of BLEU are computed by length"),
        ("words: [1, 4], longer_than: 4", "longer_than compares two selections; remove one of them"),
        ("words: [5, 4]", r"words: \[5, 4\] is not ascending"),
        ("words: [5]", "words"),
        ("published: 0.8", "margin: 0.5 is more than half of the published effect"),
        ("goal: 10", "goal: belongs to metric: seconds_to_bleu, and to no other"),
        ("metric: seconds_to_bleu", "goal: belongs to metric: seconds_to_bleu, and to no other"),
    ],
)
def test_invalid_checks_are_named(claim: Claim, tmp_path: Path, keys: str, message: str) -> None:
    (tmp_path / "claim.yaml").write_text(f"{CLAIM}  - {{of: pre, against: post, expect: higher, {keys}}}\n")
    with pytest.raises(RecipeError, match=message):
        read_claim("claim.yaml", [])


def test_systems_describe_themselves() -> None:
    system = SystemConfig(
        variant="pre", search=["search.beam_size=3"], compress=CompressionConfig(to="heads", fraction=0.2), tag="fr"
    )
    assert system.description() == "search.beam_size=3 mtkit compress --to heads --fraction 0.2 --tag fr"
    heads = CompressionConfig(to="heads", most_important=True)
    assert SystemConfig(variant="pre", compress=heads).description() == (
        "mtkit compress --to heads, the most important ones"
    )


def test_the_command_writes_the_result(claim: Claim, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.execute(["reproduce", "claim.yaml", "--measure-only"]) == 0
    out = capsys.readouterr().out
    assert "claim: " in out.split("\n")[-4]
    stored = read_lines_by_name(tmp_path / "runs" / "evidence" / "results" / "study.jsonl")["claim"]
    assert stored["checks"][1]["of"] == {"1": 2.0, "2": 2.0}
    assert "-0.500" in out
    result = read_result(tmp_path / "runs" / "evidence" / "results", "claim", claim.config)
    assert result is not None
    assert f"claim: {result.verdict.value} (adequate)" in out


@pytest.mark.whole
@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ([], 2, "give either NAME, --list, --all or --markdown"),
        (["rope", "--all"], 2, "give either NAME"),
        (["rope", "--study", "medium"], 2, "--study selects from all claims; add --all"),
        (["--all", "--study", "mediom"], 2, "no claim has the study mediom"),
        (["--all", "--study", "mediom", "corpus.root=data"], 2, "no claim has the study mediom"),
        (["--all", "--study", "medium", "corpus.rot=data"], 78, "corpus.rot: no such key"),
        (["roppe"], 66, "no such claim"),
    ],
)
def test_errors(words: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.execute(["reproduce", *words]) == code
    assert message in capsys.readouterr().err


def test_all_claims_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.execute(["reproduce", "--list"]) == 0
    assert "pre-norm-without-warmup" in capsys.readouterr().out
