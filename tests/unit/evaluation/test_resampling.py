"""Intervals and p-values against an enumeration of all samples and exchanges, on random systems and references."""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from mtkit.evaluation import resampling
from mtkit.evaluation.metrics import SacrebleuMetric
from mtkit.evaluation.resampling import (
    EXACT_LINES,
    NUM_SAMPLES,
    SegmentStatistics,
    bootstrap_scores,
    interval,
    paired_bootstrap_p_value,
    randomisation_p_value,
)
from tests.toy.sampling import sampled

WORDS = [f"w{number}" for number in range(12)]
METRICS = {"bleu": lambda: BLEU(force=True), "chrf": CHRF, "ter": TER}


def texts(seed: int, count: int, differing: int) -> tuple[list[str], list[str], list[str]]:
    """References and two systems that differ in `differing` lines at most."""
    rng = random.Random(seed)
    ref = [" ".join(rng.choices(WORDS, k=rng.randint(1, 9))) for _ in range(count)]
    one, two = ([" ".join(rng.choice([word, "x"]) for word in line.split()) for line in ref] for _ in "ab")
    return ref, one, [*two[:differing], *one[differing:]]


def corpus_score(metric, hyps, ref) -> float:
    return float(metric.corpus_score(hyps, [ref]).score)


def p_by_enumeration(metric, one: list[str], two: list[str], ref: list[str]) -> float:
    """The texts are exchanged, not their statistics; sacreBLEU scores each exchange."""
    observed = abs(corpus_score(metric, one, ref) - corpus_score(metric, two, ref))
    differing = [number for number, pair in enumerate(zip(one, two, strict=True)) if pair[0] != pair[1]]
    extreme = total = 0
    for choice in itertools.product([False, True], repeat=len(differing)):
        first, second = list(one), list(two)
        for number in itertools.compress(differing, choice):
            first[number], second[number] = second[number], first[number]
        extreme += abs(corpus_score(metric, first, ref) - corpus_score(metric, second, ref)) >= observed - 1e-9
        total += 1
    return extreme / total


def statistics_of(metric, *systems: list[str], ref: list[str]) -> list[SegmentStatistics]:
    ours = SacrebleuMetric(metric)
    return [SegmentStatistics(ours, values) for values in ours.statistics(systems, [ref])]


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("seed", range(sampled(70)))  # 210 pairs of systems
def test_few_differing_lines_give_the_p_value_of_the_enumeration(seed, name) -> None:
    ref, one, two = texts(seed, random.Random(seed).randint(1, 9), differing=seed % 6)
    first, second = statistics_of(METRICS[name](), one, two, ref=ref)
    assert randomisation_p_value(first, second) == pytest.approx(p_by_enumeration(METRICS[name](), one, two, ref))


def test_more_differing_lines_than_are_exact_are_sampled() -> None:
    ref = [f"{number} has a few words" for number in range(14)]
    one, two = ref, [line[number % 5 :] + "?" for number, line in enumerate(ref)]
    values = []
    for count in (EXACT_LINES, EXACT_LINES + 1):
        first, second = statistics_of(CHRF(), [*one[:count], *two[count:]], two, ref=ref)
        values.append(randomisation_p_value(first, second))
    assert values == [2 / 2**EXACT_LINES, pytest.approx(2 / 2 ** (EXACT_LINES + 1), abs=5e-4)]
    assert values[1] * 10_001 == pytest.approx(round(values[1] * 10_001))


@pytest.mark.parametrize("better", [1, 2, 5, 8, 12])
def test_lines_that_are_all_better_give_two_of_all_exchanges(better) -> None:
    ref = [f"line {number} has five words" for number in range(100)]
    base = [line.replace("five", "six") for line in ref]
    first, second = statistics_of(BLEU(force=True), base, [*ref[:better], *base[better:]], ref=ref)
    assert randomisation_p_value(first, second) == 2 / 2**better


@pytest.mark.whole
@pytest.mark.parametrize("seed", range(5))
def test_random_exchanges_estimate_the_enumeration(monkeypatch, seed) -> None:
    ref, one, two = texts(seed, 11, differing=11)
    first, second = statistics_of(CHRF(), one, two, ref=ref)
    exact = randomisation_p_value(first, second)
    monkeypatch.setattr(resampling, "EXACT_LINES", 0)
    error = math.sqrt(exact * (1 - exact) / 10_000) + 1e-4
    assert abs(randomisation_p_value(first, second) - exact) < 5 * error


@pytest.mark.whole
@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("seed", range(4))
def test_the_bootstrap_estimates_the_distribution_over_all_samples(seed, name) -> None:
    ref, one, two = texts(seed, 4, differing=4)
    samples = [list(each) for each in itertools.product(range(4), repeat=4)]  # all 256, equally probable
    exact = np.array(
        [
            [corpus_score(METRICS[name](), [hyp[i] for i in each], [ref[i] for i in each]) for each in samples]
            for hyp in (one, two)
        ]
    )
    statistics = statistics_of(METRICS[name](), one, two, ref=ref)
    drawn = bootstrap_scores(statistics)
    for values, estimated in zip(exact, drawn, strict=True):
        mean, margin = interval(estimated)
        assert abs(mean - values.mean()) < 5 * values.std() / math.sqrt(NUM_SAMPLES) + 1e-9
        narrow, wide = ((np.quantile(values, 1 - tail) - np.quantile(values, tail)) / 2 for tail in (0.04, 0.015))
        assert narrow - 1e-9 <= margin <= wide + 1e-9
    difference = statistics[1].score() - statistics[0].score()
    shifts = exact[1] - exact[0]
    expected = (np.abs(shifts - shifts.mean()) >= abs(difference) - 1e-9).mean()
    found = paired_bootstrap_p_value(*drawn, difference)
    assert abs(found - expected) < 5 * math.sqrt(expected * (1 - expected) / NUM_SAMPLES) + 0.05


@pytest.mark.whole
def test_equally_good_systems_are_seldom_significant() -> None:
    """The share of p < 0.05 is that of chance for both tests: sacreBLEU's bootstrap has 12 of 100."""
    words = [f"w{number}" for number in range(40)]
    found = []
    for seed in range(100):
        rng = random.Random(seed)
        ref = [" ".join(rng.choices(words, k=rng.randint(4, 14))) for _ in range(40)]
        one, two = (
            [" ".join(rng.choice(words) if rng.random() < 0.3 else word for word in line.split()) for line in ref]
            for _ in "ab"
        )
        first, second = statistics_of(CHRF(char_order=2), one, two, ref=ref)
        difference = second.score() - first.score()
        drawn = bootstrap_scores([first, second], 200)
        found.append(
            (paired_bootstrap_p_value(*drawn, difference) < 0.05, randomisation_p_value(first, second, 200) < 0.05)
        )
    for count in np.sum(found, axis=0):
        assert count <= 10  # of 100; 5 expected, more than 10 in 1% of all draws


def test_one_line_of_a_hundred_is_no_evidence() -> None:
    ref = [f"line {number} has five words" for number in range(100)]
    base = [line.replace("five", "six") for line in ref]
    first, second = statistics_of(BLEU(force=True), base, [ref[0], *base[1:]], ref=ref)
    assert randomisation_p_value(first, second) == 1
    difference = second.score() - first.score()
    assert paired_bootstrap_p_value(*bootstrap_scores([first, second]), difference) > 0.05
