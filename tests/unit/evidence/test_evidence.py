"""Claims and results that come with mtkit: complete, consistent, and as docs/evidence.md shows them."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from mtkit.errors import DataError
from mtkit.evidence.claim import SystemConfig, claim_names, read_claim, read_config
from mtkit.evidence.paired_effect import paired_effect
from mtkit.evidence.report import current_result, evidence_markdown
from mtkit.evidence.results import read_result, results_folder
from mtkit.recipe.recipe import load_search

ROOT = Path(__file__).parents[3]
STORED = sorted(path.stem for path in results_folder().glob("*.json"))


@pytest.mark.parametrize("name", claim_names())
def test_claims_are_valid(name: str) -> None:
    claim = read_claim(name, [])
    assert claim.config.url.startswith("https://")
    for system in claim.config.systems.values():
        assert load_search(claim.study.recipes[system.variant].search, system.search)


def test_the_page_is_generated() -> None:
    page = (ROOT / "docs" / "evidence.md").read_text(encoding="utf-8")
    assert page == evidence_markdown(results_folder()), "mtkit reproduce --markdown > docs/evidence.md"


@pytest.mark.parametrize("name", STORED)
def test_results_follow_from_their_numbers(name: str) -> None:
    result = read_result(results_folder(), name)
    assert result is not None
    config = read_config(name)[1]
    assert result.is_of(config), "the checks were changed after the test; test the claim again"
    stored = json.loads((results_folder() / f"{name}.json").read_text())
    assert stored["verdict"] == result.verdict.value
    for entry, check in zip(stored["checks"], result.checks, strict=True):
        assert entry["verdict"] == check.verdict.value
        again = paired_effect(list(check.differences.values()), check.effect.sentence_error)
        assert (again.low, again.high) == (
            pytest.approx(check.effect.low, abs=2e-3),
            pytest.approx(check.effect.high, abs=2e-3),
        )
        if check.check.longer_than is None and not check.check.ratio:
            for seed, difference in check.differences.items():
                assert check.of[seed] - check.against[seed] == pytest.approx(difference, abs=1e-3)


def test_results_of_another_claim_and_damaged_ones_are_not_shown(tmp_path: Path) -> None:
    shutil.copy(results_folder() / f"{STORED[0]}.json", tmp_path)
    config = read_config(STORED[0])[1]
    assert current_result(tmp_path, STORED[0], config) is not None
    changed = replace(config, checks=[replace(check, margin=0.123) for check in config.checks])
    assert current_result(tmp_path, STORED[0], changed) is None
    assert current_result(tmp_path, STORED[0], replace(config, study="another")) is None
    systems = {"x": SystemConfig(variant="base", search=["search.beam_size=50"])}
    assert current_result(tmp_path, STORED[0], replace(config, systems=systems)) is None
    assert current_result(tmp_path, "another", config) is None
    (tmp_path / f"{STORED[0]}.json").write_text("{}")
    with pytest.raises(DataError, match="not a result of mtkit reproduce"):
        current_result(tmp_path, STORED[0], config)
