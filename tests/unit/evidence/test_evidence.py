"""Claims and results that come with mtkit: complete, consistent, and as docs/evidence.md shows them."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from mtkit.errors import DataError
from mtkit.evidence.claim import SystemConfig, claim_names, read_claim, read_config
from mtkit.evidence.report import evidence_markdown, read_claims, result_lines
from mtkit.evidence.results import change_line, read_lines_by_name, read_result, results_folder, seed_prior
from mtkit.recipe.tree import load_search
from mtkit.study.load import read_study
from tests.toy.sampling import thinned

ROOT = Path(__file__).parents[3]
STORED = [name for path in sorted(results_folder().glob("*.jsonl")) for name in read_lines_by_name(path)]
TABLES = ("Holds here", "Holds in part or not at all here", "Undecided here", "What learns faster")


@cache
def stored_page() -> str:
    """The page of the stored results."""
    return evidence_markdown(results_folder())


@pytest.mark.parametrize("name", thinned(claim_names(), 5))
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
    page = stored_page()
    assert page.count("\n") <= 350
    assert len(page.encode()) <= 60_000
    assert sum(claim.place in TABLES for claim in read_claims(results_folder()).values()) <= 55


def test_every_claim_is_on_the_page_once() -> None:
    page = stored_page()
    tables, _, others = page.partition("\n## Without a row")
    others = others.split("\n## ")[0]
    for claim in read_claims(results_folder()).values():
        row = re.findall(rf"^\| \[(.+)\]\(#{claim.name}\) \|(.+)$", tables, re.M)
        assert len(row) + len(re.findall(rf"`{claim.name}`", others)) == 1, claim.name
        assert bool(row) == (f"\n### {claim.name}\n" in page)
        for text, rest in row:
            assert text == (claim.config.compared if claim.config.scale == "short" else claim.config.claim)
            assert claim.config.limit in rest
            assert claim.larger is None


def test_only_long_trainings_have_verdicts() -> None:
    """A recipe to its end, 15 epochs, or 5,000 pairs read 40 times; after less a side is ahead or not."""
    for claim in read_claims(results_folder()).values():
        assert claim.config.scale != "adequate" or claim.config.study in ("baselines", "medium", "overfitting")
        if claim.config.scale not in ("adequate", "short") and claim.result is not None and claim.larger is None:
            assert claim.verdict_text.startswith("not decided here")
    faster = stored_page().partition("\n## What learns faster")[2].split("\n## ")[0]
    assert faster.count("\n| [") > 20
    assert re.findall(r"\*\*|confirmed|contrary|holds", faster) == []
    words = ("After a short training", "Confirmed here", "Contrary here", "Partly here", "Smaller than the margin here")
    for section in stored_page().partition("\n## Numbers")[2].split("\n### ")[1:]:
        name, text = section.split("\n", 1)
        is_short = read_config(name)[1].scale == "short"
        assert text.startswith("**After a short training.**") == is_short
        assert text.startswith(tuple(f"**{word}" for word in (*words, "Undecided here")))
        assert is_short != ("**" in text[3:].partition("**")[2])  # comparisons of a short training have no verdict


@pytest.mark.whole
def test_rows_name_the_rate_at_the_end_of_what_was_tried() -> None:
    page = stored_page()
    chosen = [each for each in read_claims(results_folder()).values() if each.result and each.result.rates]
    assert len(chosen) > 15
    for claim in chosen:
        assert claim.result is not None
        tried = claim.result.rates
        study = read_study(claim.config.study, []).config.learning_rates
        assert all(set(rates) <= set(study[variant]) for variant, rates in tried.items())
        ends = [len(rates) for rates in tried.values() if len(rates) > 1 and rates[0] == max(rates)]
        for row in re.findall(rf"\]\(#{claim.name}\) \|.+", page):
            assert ("the highest of " in row) == bool(ends)
            assert not ends or f"the highest of {ends[0]} tried" in row


def test_rows_name_what_as_good_and_no_loss_mean() -> None:
    rows = dict(re.findall(r"\]\(#([^)]+)\) \|(.+)", stored_page()))
    found = 0
    for claim in read_claims(results_folder()).values():
        for check in claim.config.checks if claim.config.scale == "adequate" and claim.name in rows else []:
            text = {"equal": "equal within", "not_lower": "not lower by"}.get(check.expect)
            found += text is not None
            assert text is None or f"), expected {text} {check.margin:g}" in rows[claim.name]
    assert found > 4


def test_claims_point_to_larger_tests() -> None:
    configs = {name: read_config(name)[1] for name in claim_names()}
    for config in configs.values():
        if config.tested_by is not None:
            larger = configs[config.tested_by]
            assert larger.tested_by is None
            assert larger.study in ("baselines", "medium", "overfitting")


def test_every_link_within_the_page_has_a_heading() -> None:
    page = stored_page()
    headings = [re.sub(r"[^\w -]", "", each.lower()).replace(" ", "-") for each in re.findall(r"^#+ (.+)$", page, re.M)]
    assert len(set(headings)) == len(headings)
    targets = re.findall(r"\]\(#([^)]+)\)", page)
    assert len(targets) > 40
    assert [each for each in targets if each not in headings] == []


def copy_line(name: str, folder: Path, to: str = "", **changes: object) -> None:
    """Copy a stored result, with changes and under another name if they are given."""
    config = read_config(name)[1]
    line = {**read_lines_by_name(results_folder() / f"{config.study}.jsonl")[name], **changes}
    change_line(folder / f"{line['study']}.jsonl", to or name, lambda _: line)


@pytest.mark.whole
def test_the_larger_test_replaces_the_smaller_one_once_it_ran(tmp_path: Path) -> None:
    copy_line("rope", tmp_path)
    copy_line("rope-longer-training", tmp_path)
    assert read_claims(tmp_path)["rope"].larger is None
    check = {"check": {"of": "base", "against": "sinusoidal", "metric": "bleu"}, "sentence_error": 0.1}
    sides = {"of": {"1": 31.0, "2": 32.0, "3": 33.0}, "against": {"1": 21.0, "2": 22.0, "3": 23.0}}
    copy_line("rope", tmp_path, "rope-medium", study="medium", checks=[{**check, **sides}])
    claims = read_claims(tmp_path)
    assert claims["rope"].verdict_text == "see rope-medium"
    assert claims["rope-medium"].verdict_text == "confirmed (adequate)"
    page = evidence_markdown(tmp_path)
    assert "### rope-medium\n**Confirmed here.**" in page
    assert re.findall(r"^\| Tested again .+`rope`", page, re.M)
    assert "### rope\n" not in page


def test_a_repeated_test_is_printed_beside_the_stored_one() -> None:
    """Three trainings of unigram-against-bpe on another processor: each test has a verdict, and both together one."""
    config = read_config("unigram-against-bpe")[1]
    stored = read_result(results_folder(), "unigram-against-bpe", config)
    assert stored is not None
    check = replace(stored.checks[0], of={1: 17.4, 2: 17.9, 3: 18.0}, against={1: 18.1, 2: 18.5, 3: 17.9})
    lines = [*result_lines(config, replace(stored, checks=[check], overrides=["seeds=[1, 2, 3]"]), stored)]
    assert re.fullmatch(r"  unigram2000 against .+: BLEU -0\.40 \(.+\): undecided: lacks .+", lines[1])
    assert lines[2] == "    stored: BLEU -0.01 (-0.78 to +0.76): confirmed"
    assert re.fullmatch(r"    both, 6 trainings of a side: BLEU -0\.2\d \(.+\): confirmed", lines[3])
    assert re.fullmatch(r"    new minus stored: -0\.39 \(-.+ to \+.+\)", lines[4])
    assert lines[5:7] == [
        "unigram-against-bpe: undecided (short)",
        "unigram-against-bpe, stored: confirmed (short)",
    ]
    other = replace(stored, checks=[check], overrides=["training.max_updates=900"])
    assert "    both: not compared, since the stored test has other settings" in [*result_lines(config, other, stored)]
    timed = read_config("time-to-equal-bleu")[1]
    times = read_result(results_folder(), "time-to-equal-bleu", timed)
    assert times is not None
    assert "    both: not compared, since times are those of a machine" in [*result_lines(timed, times, times)]
    assert not any("stored" in line for line in result_lines(timed, times, None))


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
    copy_line("rope", tmp_path)
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
    change_line(tmp_path / "short-positions.jsonl", "rope", lambda _: {})
    with pytest.raises(DataError, match="rope: not a result of mtkit reproduce"):
        read_result(tmp_path, "rope", config)
    for damaged in (b"{}", b"\xff", b"[" * 100_000, b'"text"'):
        (tmp_path / "short-positions.jsonl").write_bytes(b'{"name": "x"}\n' + damaged)
        with pytest.raises(DataError, match="jsonl:2: not a result of mtkit reproduce"):
            read_result(tmp_path, "rope", config)


@pytest.mark.whole
def test_results_with_a_file_for_each_claim_and_training_are_converted(tmp_path: Path) -> None:
    """Written as version 0.2 did, from stored lines, and read again."""
    old, new = tmp_path / "old", tmp_path / "new"
    for file in ("medium.jsonl", "trainings/medium.jsonl"):
        for name, line in read_lines_by_name(results_folder() / file).items():
            folder = old / file.removesuffix(".jsonl") if "trainings" in file else old
            folder.mkdir(parents=True, exist_ok=True)
            content = {key: value for key, value in line.items() if key != "rates"}
            (folder / f"{name}.json").write_text(json.dumps({"name": name, **content} if folder == old else content))
    command = [sys.executable, str(ROOT / "tools" / "convert_results.py"), str(old), str(new)]
    subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
    for file in ("medium.jsonl", "trainings/medium.jsonl"):
        assert read_lines_by_name(new / file) == read_lines_by_name(results_folder() / file)


def test_stored_lines_are_in_order_and_one_for_each_claim_and_training() -> None:
    for path in [*results_folder().glob("*.jsonl"), *results_folder().glob("trainings/*.jsonl")]:
        names = [json.loads(line)["name"] for line in path.read_text("utf-8").splitlines()]
        assert names == sorted(set(names))


def add_lines(path: Path, prefix: str) -> None:
    """Add lines, as a process of its own."""
    for number in range(20):
        change_line(path, f"{prefix}{number}", lambda _: {"values": {prefix: number}})  # noqa: B023


@pytest.mark.whole
def test_processes_that_add_lines_at_once_lose_none(tmp_path: Path) -> None:
    path = tmp_path / "results" / "study.jsonl"
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=add_lines, args=(path, prefix)) for prefix in "abc"]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0, 0]
    lines = read_lines_by_name(path)
    assert len(lines) == 60
    assert lines["b7"] == {"values": {"b": 7}}
    assert [each.name for each in path.parent.iterdir()] == ["study.jsonl"]
