"""Measurement of a claim from the files of finished runs."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from sacrebleu.metrics.bleu import BLEU

from mtkit.cli import entry
from mtkit.errors import DataError, RecipeError
from mtkit.evidence.claim import CheckConfig, Claim, CompressionConfig, SystemConfig, read_claim
from mtkit.evidence.measure import Measurements
from mtkit.evidence.run import measure_claim, study_folder
from mtkit.evidence.run_values import seconds_to_bleu
from mtkit.io.records import record_line
from mtkit.study.runs import StudyRun, runs_of
from tests.toy.studies import finish, sentences, toy_corpus, translated

CLAIM = """\
claim: pre is better
source: nobody 2026
url: https://example.org
theme: norms
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


def test_values_and_differences(claim: Claim) -> None:
    result = measure_claim(claim, study_folder(claim, None))
    by_bleu, by_loss, by_speed, by_length = result.checks
    assert by_bleu.of == {str(seed): pytest.approx(bleu(PRE[seed])) for seed in (1, 2)}
    assert by_bleu.differences == {str(s): pytest.approx(bleu(PRE[s]) - bleu(POST[s])) for s in (1, 2)}
    assert by_loss.differences == {"1": -0.5, "2": -0.5}  # of the best update
    assert by_loss.verdict == "confirmed"
    assert by_speed.differences == {seed: pytest.approx(100 * math.log(2)) for seed in ("1", "2")}
    assert by_length.differences != by_bleu.differences
    assert (result.runs, result.parameters) == (4, {"pre": 1234, "post": 1234})
    assert result.environment["training_precision"] == ["float32"]


def test_unseen_words_are_in_no_training_line(claim: Claim) -> None:
    check = CheckConfig(of="pre", against="post", expect="higher", metric="unseen_words")
    measurements = Measurements(claim, study_folder(claim, None))
    assert "oder" not in measurements.training_words
    assert measurements.values("pre", check) == {1: 0.0, 2: 0.0}  # oder, which no reference has
    measurements.training_words.clear()  # then all words are unseen
    assert all(50 < value < 100 for value in measurements.values("pre", check).values())


@pytest.mark.parametrize(("least", "largest"), [(2, 4), (5, 10)])
def test_bleu_of_sources_with_so_many_words(claim: Claim, tmp_path: Path, least: int, largest: int) -> None:
    check = f"  - {{of: pre, against: post, expect: higher, words: [{least}, {largest}]}}\n"
    (tmp_path / "claim.yaml").write_text(CLAIM + check)
    claim = read_claim("claim.yaml", [])
    result = measure_claim(claim, study_folder(claim, None)).checks[-1]
    chosen = [index for index, line in enumerate(sentences(40, 2)) if least <= len(line.split()) <= largest]
    assert 0 < len(chosen) < 40
    ref = [REF[index] for index in chosen]
    for system, stored in ((PRE, result.of), (POST, result.against)):
        for seed, hyps in system.items():
            expected = BLEU().corpus_score([hyps[index] for index in chosen], [ref]).score
            assert stored[str(seed)] == pytest.approx(expected)
    assert result.differences == {s: pytest.approx(result.of[s] - result.against[s]) for s in ("1", "2")}


def write_log(run: StudyRun, *events: dict[str, object]) -> None:
    run.folder.log.write_bytes(b"".join(record_line({"time": 0.0, **event}) for event in events))


def test_seconds_to_a_bleu(claim: Claim) -> None:
    run = runs_of(claim.study, study_folder(claim, None))[0]
    scores = {2: 4.0, 4: 9.0, 6: 8.0, 8: 12.0}
    times = [{"event": "train", "update": update, "seconds": update / 2} for update in (2, 4, 8)]
    validations = [{"event": "validation", "update": update, "bleu": bleu} for update, bleu in scores.items()]
    write_log(run, *times, *validations)
    assert seconds_to_bleu(run, 9.0) == 2.0  # the first that reaches it, although the next one is below
    assert seconds_to_bleu(run, 9.5) == 4.0
    with pytest.raises(DataError, match=r"pre, seed 1: no validation has a BLEU of 13; lower goal"):
        seconds_to_bleu(run, 13.0)
    write_log(run, {"event": "validation", "update": 6, "bleu": 9.0})
    with pytest.raises(DataError, match=r"pre, seed 1: the log has no time of update 6; set training\.log_every"):
        seconds_to_bleu(run, 9.0)


def test_without_runs_of_the_same_seed_nothing_is_compared(claim: Claim, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no finished run of the same seed"):
        Measurements(claim, tmp_path / "empty").effect(claim.config.checks[0])


def test_unknown_systems_are_named(claim: Claim, tmp_path: Path) -> None:
    (tmp_path / "claim.yaml").write_text(CLAIM.replace("against: post", "against: pots"))
    with pytest.raises(RecipeError, match=r"pots: no such variant in study.yaml; did you mean post\?"):
        read_claim("claim.yaml", [])


@pytest.mark.parametrize(
    ("system", "message"),
    [
        ("{variant: pre, search: [search.beam_size=3], tag: a b}", "systems.x.tag"),
        ("{variant: pre, compress: {to: int8}, model: [model.bias=false]}", "cannot be changed together with compress"),
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
    assert "claim: " in out.split("\n")[-3]
    stored = json.loads((tmp_path / "runs" / "evidence" / "results" / "claim.json").read_text())
    assert stored["checks"][1]["effect"]["mean"] == -0.5
    assert stored["verdict"] in out


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ([], 2, "give either NAME, --list, --all or --markdown"),
        (["rope", "--all"], 2, "give either NAME"),
        (["roppe"], 66, "no such claim"),
    ],
)
def test_errors(words: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.execute(["reproduce", *words]) == code
    assert message in capsys.readouterr().err


def test_all_claims_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.execute(["reproduce", "--list"]) == 0
    assert "pre-norm-without-warmup" in capsys.readouterr().out
