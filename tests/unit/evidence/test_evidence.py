"""Claims and results that come with mtkit: complete, consistent, and as docs/evidence.md shows them."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from mtkit.errors import DataError
from mtkit.evidence.claim import SystemConfig, claim_names, read_claim, read_config
from mtkit.evidence.report import evidence_markdown, read_claims
from mtkit.evidence.results import read_result, results_folder, seed_prior
from mtkit.recipe.tree import load_search

ROOT = Path(__file__).parents[3]
STORED = sorted(path.stem for path in results_folder().glob("*.json"))


@cache
def stored_page() -> str:
    """The page of the stored results."""
    return evidence_markdown(results_folder())


@pytest.mark.parametrize("name", claim_names())
def test_claims_are_valid(name: str) -> None:
    claim = read_claim(name, [])
    assert claim.config.url.startswith("https://")
    for system in claim.config.systems.values():
        assert load_search(claim.study.recipes[system.variant].search, system.search)


def test_a_claim_overrides_its_study_and_the_user_both() -> None:
    assert read_config("number-of-heads")[1].overrides[0].startswith("seeds=[4, 5,")
    assert read_claim("number-of-heads", []).study.config.seeds == list(range(4, 16))
    assert list(read_claim("number-of-heads", []).study.tests) == ["flickr2016", "flickr2017"]
    assert read_claim("number-of-heads", ["seeds=[1]"]).study.config.seeds == [1]


def test_the_page_is_generated() -> None:
    page = (ROOT / "docs" / "evidence.md").read_text(encoding="utf-8")
    assert page == stored_page(), "mtkit reproduce --markdown > docs/evidence.md"


def test_the_page_is_short() -> None:
    assert stored_page().count("\n") <= 700


def test_every_claim_is_on_the_first_page_once_with_its_scale() -> None:
    page = stored_page().split("\n## How claims are tested")[0]
    for claim in read_claims(results_folder()).values():
        rows = [line for line in page.split("\n") if line.startswith(f"| [{claim.config.claim}](#{claim.name}) |")]
        assert len(rows) == (claim.result is not None and claim.larger is None)
        if claim.word == "not run":
            assert f"`{claim.name}`" in page
        for row in rows:
            assert f"**{claim.verdict_text}**" in row
            assert claim.verdict_text == "not testable here" or f"({claim.scale})" in claim.verdict_text


def test_the_overview_counts_all_claims() -> None:
    found = re.findall(r"^\| ([a-z ]+) \|((?: \d* \|){6})$", stored_page(), re.M)
    rows = {
        word: [int(cell) for cell in cells.split(" | ") if cell.strip(" |")]
        for word, cells in ((word, cells.replace("|", " | ")) for word, cells in found)
    }
    assert set(rows) > {"confirmed", "contrary", "partly", "undecided", "smaller than the margin"}
    assert all(sum(counts[:-1]) == counts[-1] for counts in rows.values() if len(counts) > 1)
    current = [claim for claim in read_claims(results_folder()).values() if claim.larger is None]
    assert sum(counts[-1] for counts in rows.values()) == len(current)


def test_claims_point_to_larger_tests_of_the_same_theme() -> None:
    configs = {name: read_config(name)[1] for name in claim_names()}
    for config in configs.values():
        if config.tested_by is not None:
            larger = configs[config.tested_by]
            assert larger.tested_by is None
            assert larger.scale == "adequate"
            assert larger.theme == config.theme or config.theme == "attention"


def test_every_link_within_the_page_has_a_heading() -> None:
    page = stored_page()
    headings = [re.sub(r"[^\w -]", "", each.lower()).replace(" ", "-") for each in re.findall(r"^#+ (.+)$", page, re.M)]
    assert len(set(headings)) == len(headings)
    targets = re.findall(r"\]\(#([^)]+)\)", page)
    assert len(targets) > len(STORED)
    assert [each for each in targets if each not in headings] == []


def test_the_larger_test_has_the_last_word_once_it_ran(tmp_path: Path) -> None:
    shutil.copy(results_folder() / "rope.json", tmp_path)
    assert read_claims(tmp_path)["rope"].larger is None
    larger = json.loads((results_folder() / "rope.json").read_text())
    larger |= {"name": "rope-medium", "study": "medium"}
    larger["checks"][0]["check"]["of"] = "base"
    (tmp_path / "rope-medium.json").write_text(json.dumps(larger))
    claims = read_claims(tmp_path)
    assert claims["rope"].verdict_text == "see rope-medium"
    assert claims["rope-medium"].result is not None
    page = evidence_markdown(tmp_path)
    assert "### rope\n**See [rope-medium](#rope-medium)**" in page
    assert "](#rope) |" not in page
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
def test_stored_results_are_those_of_the_claims(name: str) -> None:
    result = read_result(results_folder(), name, read_config(name)[1])
    assert result is not None, "the checks were changed after the test; test the claim again"
    assert all(check.of and check.against for check in result.checks)


def test_the_prior_of_stored_results() -> None:
    """Single trainings of one architecture differ by about half a BLEU."""
    prior = seed_prior()
    assert prior is not None
    assert 0.3 < prior.variance**0.5 < 0.6
    assert 1.0 < prior.freedom <= 5.0


def test_results_of_another_claim_and_damaged_ones_are_not_shown(tmp_path: Path) -> None:
    shutil.copy(results_folder() / "rope.json", tmp_path)
    config = read_config("rope")[1]
    assert read_result(tmp_path, "rope", config) is not None
    margins = replace(config, checks=[replace(check, margin=0.05) for check in config.checks])
    assert read_result(tmp_path, "rope", margins) is not None  # the numbers stay
    for changed in (
        replace(config, checks=[replace(check, of="t5") for check in config.checks]),
        replace(config, study="another"),
        replace(config, systems={"x": SystemConfig(variant="base", search=["search.beam_size=50"])}),
    ):
        assert read_result(tmp_path, "rope", changed) is None
    assert read_result(tmp_path, "another", config) is None
    (tmp_path / "rope.json").write_text("{}")
    with pytest.raises(DataError, match="not a result of mtkit reproduce"):
        read_result(tmp_path, "rope", config)
