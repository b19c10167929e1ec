"""The records of trainings that come with mtkit: results can be computed again from them, without a training."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from mtkit.cli import entry
from mtkit.evidence.claim import claim_names, read_claim, read_config
from mtkit.evidence.measure import measure_claim
from mtkit.evidence.records import Records
from mtkit.evidence.results import ClaimResult, read_result, results_folder

FIRST = "2026-11-27"  # results of before have no records


def stored(name: str) -> ClaimResult | None:
    """The result of a claim."""
    return read_result(results_folder(), name, read_config(name)[1])


RECORDED = [name for name in claim_names() if (result := stored(name)) is not None and result.date >= FIRST]


@pytest.mark.parametrize("name", RECORDED)
def test_results_follow_from_the_records(name: str, corpora: Path, tmp_path: Path) -> None:
    corpus = "tatoeba-de-en" if read_claim(name, []).study.tests == ["tatoeba"] else "multi30k"
    claim = read_claim(name, [f"corpus.root={corpora / corpus}"])
    computed = measure_claim(claim, tmp_path / claim.study.config.name, Records(results_folder()))
    result = stored(name)
    assert result is not None
    assert (computed.runs, computed.rates) == (result.runs, result.rates)
    for new, old in zip(computed.checks, result.checks, strict=True):
        assert new.of == pytest.approx(old.of, abs=1e-3)
        assert new.against == pytest.approx(old.against, abs=1e-3)
        assert new.verdict_text == old.verdict_text


@pytest.mark.parametrize("name", ["beam-search-medium", "int8-medium", "ancestral-sampling-medium"])
def test_two_seeds_at_the_chosen_rate_have_the_stored_verdict(
    name: str, corpora: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The page says so of these claims; the two trainings take less than an hour of one core."""
    shutil.copytree(results_folder() / "trainings", tmp_path / "results" / "trainings")
    overrides = [f"corpus.root={corpora / 'multi30k'}", "learning_rates={base: [6e-3]}", "seeds=[1, 2]"]
    assert entry.execute(["reproduce", name, *overrides, "--measure-only", "--run-dir", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert f"{name}: confirmed (adequate)\n{name}, stored: confirmed (adequate)" in out
    assert "    both: the stored trainings again" in out
    claim = read_claim(name, overrides)
    result = measure_claim(claim, tmp_path / "medium", Records(tmp_path / "results"))
    assert result.runs == 2
    assert result.seconds < 3600
