"""Claims and results that come with mtkit: complete, consistent, and as docs/evidence.md shows them."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from mtkit.errors import DataError
from mtkit.evidence.claim import THEMES, SystemConfig, claim_names, read_claim, read_config
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


def test_every_claim_is_in_the_table_of_its_theme() -> None:
    sections = dict(part.split("\n", 1) for part in evidence_markdown(results_folder()).split("\n## ")[1:])
    assert list(sections)[: len(THEMES)] == list(THEMES.values())
    for name in claim_names():
        config = read_config(name)[1]
        result = current_result(results_folder(), name, config)
        rows = [line for line in sections[THEMES[config.theme]].split("\n") if line.endswith(f"| `{name}` |")]
        assert len(rows) == 1
        assert config.claim in rows[0]
        assert (result.verdict.value if result else "not run") in rows[0]


def test_the_overview_counts_all_claims() -> None:
    rows = re.findall(r"^\| (?:\[([^]]+)\]\(#[^)]+\)|(all)) \| (\d.*) \|$", evidence_markdown(results_folder()), re.M)
    counts = {theme or every: [int(cell) for cell in cells.split(" | ")] for theme, every, cells in rows}
    assert list(counts) == [*THEMES.values(), "all"]
    assert all(claims == sum(verdicts) > 0 for claims, *verdicts in counts.values())
    assert counts["all"][0] == len(claim_names())
    assert counts["all"] == [sum(column) for column in zip(*(counts[each] for each in THEMES.values()), strict=True)]


def test_every_link_within_the_page_has_a_heading() -> None:
    page = evidence_markdown(results_folder())
    headings = [re.sub(r"[^\w -]", "", each.lower()).replace(" ", "-") for each in re.findall(r"^#+ (.+)$", page, re.M)]
    assert len(set(headings)) == len(headings)
    targets = re.findall(r"\]\(#([^)]+)\)", page)
    assert len(targets) > len(STORED)
    assert [each for each in targets if each not in headings] == []


def test_claims_that_were_not_tested_are_listed_without_a_link(tmp_path: Path) -> None:
    shutil.copy(results_folder() / "rope.json", tmp_path)
    page = evidence_markdown(tmp_path)
    assert f"| all | {len(claim_names())} | 0 | 1 | 0 | {len(claim_names()) - 1} |" in page
    config = read_config("rope-scaling")[1]
    assert f"| {config.claim} | not run, {config.minutes:g} minutes |  |" in page
    assert "(#rope-scaling)" not in page


def test_benchmarks_are_quoted_as_they_were_measured() -> None:
    """Every number of a benchmark is in the section of docs/benchmarks.md that its row links to."""
    benchmarks = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    sections = {part.split("\n")[0].lower().replace(" ", "-"): part for part in benchmarks.split("\n## ")[1:]}
    table = (ROOT / "mtkit" / "evidence" / "benchmarks.md").read_text(encoding="utf-8")
    rows = [line.split(" | ") for line in table.split("\n") if line.startswith("| ")][1:]
    assert len(rows) > 4
    program, section = "", ""
    for _, _, measured, source in rows:
        if not source.startswith("the same"):
            program, section = re.findall(r"^`(.+)`, \[table\]\(benchmarks\.md#(.+)\)", source)[0]
        assert (ROOT / program).is_file()
        numbers = set(re.findall(r"\d[\d,]*(?:\.\d+)?", measured))
        known = set(re.findall(r"\d[\d,]*(?:\.\d+)?", sections[section]))
        assert numbers - known == set(), (measured, section)


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
