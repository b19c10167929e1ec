"""Effects: BLEU from sufficient statistics, Student's quantiles, and intervals that hold what they promise."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU

from mtkit.evidence.claim import CheckConfig
from mtkit.evidence.effect import MAX_PRIOR_FREEDOM, Prior, Spread, paired_effect, student_quantile, unpaired_effect
from mtkit.evidence.measure import (
    bleu_by_seed,
    bleu_of_statistics,
    bleu_statistics,
    pack,
    sentence_error,
    unpack,
)
from mtkit.evidence.results import CheckResult, difference, pooled
from tests.toy.studies import sentences, translated

REF = translated(sentences(60, 2))
FIRST = [line.replace("und", "oder") for line in REF]
SECOND = [line.replace("große", "alte").replace("der", "die") for line in REF]


@pytest.mark.parametrize("hyps", [FIRST, SECOND, REF, ["Haus"] * 60, ["der"] * 60, ["der Hund und"] * 60, [""] * 60])
def test_statistics_sum_to_the_corpus_bleu_of_sacrebleu(hyps: list[str]) -> None:
    found = bleu_of_statistics(bleu_statistics(hyps, REF, tokenize="13a").sum(axis=0))
    assert float(found) == pytest.approx(BLEU().corpus_score(hyps, [REF]).score, abs=1e-9)


@pytest.mark.parametrize(
    ("freedom", "published"),  # two-sided 95%, printed in every textbook
    [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (10, 2.228), (30, 2.042), (120, 1.980), (math.inf, 1.960)],
)
def test_quantiles_are_the_published_ones(freedom: float, published: float) -> None:
    assert student_quantile(0.975, freedom) == pytest.approx(published, abs=6e-4)


def test_quantiles_have_closed_forms_for_one_and_two_degrees_of_freedom() -> None:
    for probability in (0.6, 0.9, 0.975, 0.995):
        shifted = probability - 0.5
        assert student_quantile(probability, 1) == pytest.approx(math.tan(math.pi * shifted), rel=1e-6)
        two = 2 * shifted * math.sqrt(2 / (1 - 4 * shifted**2))
        assert student_quantile(probability, 2) == pytest.approx(two, rel=1e-6)


def test_without_sentences_the_interval_is_that_of_the_paired_t_test() -> None:
    differences = [1.0, 2.5, 0.5, 1.5]
    half = 3.182446 * statistics.stdev(differences) / 2
    effect = paired_effect(differences)
    assert effect.mean == 1.375
    assert effect.half == pytest.approx(half, abs=1e-5)


def test_unpaired_systems_have_the_interval_of_welch() -> None:
    """Degrees of freedom between 5 and 6, whose quantiles are 2.571 and 2.447 in every textbook."""
    of, against = [27.5, 21.0, 19.0, 23.6], [27.1, 22.0, 20.8, 23.4]
    first, second = statistics.variance(of) / 4, statistics.variance(against) / 4
    freedom = (first + second) ** 2 / (first**2 / 3 + second**2 / 3)
    effect = unpaired_effect(of, against)
    assert 5.0 < freedom < 6.0
    assert effect.half is not None
    assert 2.447 < effect.half / math.sqrt(first + second) < 2.571
    assert effect.mean == pytest.approx(statistics.fmean(of) - statistics.fmean(against))
    assert unpaired_effect([1.0, 2.0], [1.0, 2.0, 3.0]).mean == -0.5


def test_equal_seeds_leave_the_sentences_and_one_seed_leaves_no_interval() -> None:
    assert paired_effect([2.0, 2.0, 2.0], sentence_error=0.5).half == pytest.approx(1.96 * 0.5, abs=1e-3)
    assert paired_effect([1.0]).interval is None
    with pytest.raises(ValueError, match="at least one seed"):
        paired_effect([])
    with pytest.raises(ValueError, match="at least one seed"):
        unpaired_effect([1.0], [])


def test_a_moderated_variance_lies_between_its_own_and_the_prior() -> None:
    spread = Spread.of([1.0, 2.0, 3.0], Prior(variance=0.3, freedom=5.0))
    assert spread == Spread(pytest.approx((5 * 0.3 + 2 * 1.0) / 7), 7.0, 3)


def test_the_prior_is_that_of_the_experiment_that_made_the_variances() -> None:
    """Smyth 2004: 1 / variance is chi-square with 4 degrees of freedom, divided by 4 · 0.3."""
    generator = np.random.default_rng(0)
    variances = 4 * 0.3 / generator.chisquare(4, size=4000)
    samples = generator.normal(size=(4000, 3)) * np.sqrt(variances)[:, None]
    prior = Prior.fit(samples.tolist())
    assert prior is not None
    assert prior.freedom == pytest.approx(4.0, rel=0.15)
    assert prior.variance == pytest.approx(0.3, rel=0.1)
    equal = Prior.fit(generator.normal(scale=2.0, size=(400, 3)).tolist())
    assert equal is not None
    assert equal.freedom == pytest.approx(MAX_PRIOR_FREEDOM, rel=1e-3)
    assert Prior.fit([[1.0, 2.0], [3.0]]) is None


@pytest.mark.whole
@pytest.mark.parametrize("is_paired", [True, False])
def test_intervals_hold_the_truth_in_95_percent_of_experiments(is_paired: bool) -> None:
    """Truth 1.0, seeds with deviation 0.6, test sentences with error 0.4, which all seeds of an experiment share."""
    generator = np.random.default_rng(0)
    prior = Prior(0.36, 5.0)
    experiments, held = 1000, 0
    for _ in range(experiments):
        lines, seeds = generator.normal(0, 0.4), generator.normal(0, 0.6, size=(2, 3))
        if is_paired:
            effect = paired_effect((1.0 + lines + seeds[0]).tolist(), sentence_error=0.4)
        else:
            effect = unpaired_effect((1.0 + lines + seeds[0]).tolist(), seeds[1].tolist(), 0.4, prior)
        assert effect.interval is not None
        held += effect.interval[0] <= 1.0 <= effect.interval[1]
    assert 0.93 < held / experiments < 0.99  # standard error 0.007; Satterthwaite is a little cautious


@pytest.mark.whole
def test_the_bootstrap_resamples_lines_as_sacrebleu_does() -> None:
    """Values and deviation against a plain bootstrap that scores each sample by sacreBLEU."""
    first, second = ({1: bleu_statistics(hyps, REF, tokenize="13a")} for hyps in (FIRST, SECOND))
    everything = [(1.0, np.ones(60, dtype=np.bool_))]
    metric, generator = BLEU(), np.random.default_rng(7)

    def bleu(hyps: list[str], lines: list[int]) -> float:
        return metric.corpus_score([hyps[line] for line in lines], [[REF[line] for line in lines]]).score

    samples = [generator.integers(0, 60, size=60).tolist() for _ in range(400)]
    expected = [bleu(FIRST, lines) - bleu(SECOND, lines) for lines in samples]
    assert float(bleu_by_seed(first, np.ones((1, 60)), everything)[0, 0]) == pytest.approx(bleu(FIRST, list(range(60))))
    error = sentence_error(first, second, everything)
    assert error == pytest.approx(statistics.stdev(expected), rel=0.15)  # error of a deviation: 3.5%


def test_an_effect_by_length_is_the_difference_of_two_scores() -> None:
    found = {1: bleu_statistics(FIRST, REF, tokenize="13a")}
    is_long = np.asarray([len(line.split()) > 5 for line in REF])
    values = bleu_by_seed(found, np.ones((1, 60)), [(1.0, is_long), (-1.0, ~is_long)])
    parts = [
        BLEU().corpus_score([FIRST[n] for n in np.flatnonzero(each)], [[REF[n] for n in np.flatnonzero(each)]]).score
        for each in (is_long, ~is_long)
    ]
    assert float(values[0, 0]) == pytest.approx(parts[0] - parts[1], abs=1e-9)


@pytest.mark.parametrize("hyps", [FIRST, [""] * 60, ["der"] * 60, ["der Hund und " * 200] * 60])
def test_packed_statistics_are_the_same_statistics(hyps: list[str]) -> None:
    statistics_ = bleu_statistics(hyps, REF, tokenize="13a")
    assert np.array_equal(unpack(pack(statistics_)), statistics_)
    assert len(pack(statistics_)) < 2000


def test_damaged_statistics_are_named() -> None:
    with pytest.raises(ValueError, match="damaged statistics"):
        unpack("0" * 20)


def result(of: dict[int, float], against: dict[int, float], error: float = 0.0, *, paired: bool = False) -> CheckResult:
    return CheckResult(CheckConfig(of="a", against="b", expect="higher", metric="loss"), of, against, error, paired)


@pytest.mark.parametrize("paired", [False, True])
def test_a_pooled_effect_is_that_of_all_trainings(paired: bool) -> None:
    """Seed 3 is in both tests with the same values, seed 2 with others: five trainings of a side."""
    stored = result({1: 1.0, 2: 2.0, 3: 4.0}, {1: 0.5, 2: 1.0, 3: 2.0}, 0.3, paired=paired)
    new = result({2: 2.5, 3: 4.00001, 4: 3.0}, {2: 1.5, 3: 2.00001, 4: 0.0}, 0.2, paired=paired)
    of, against = [1.0, 2.0, 4.0, 2.5, 3.0], [0.5, 1.0, 2.0, 1.5, 0.0]
    if paired:
        expected = paired_effect([a - b for a, b in zip(of, against, strict=True)], 0.3)
    else:
        expected = unpaired_effect(of, against, 0.3)
    effect = pooled(stored, new).effect
    assert effect.mean == pytest.approx(expected.mean)
    assert effect.interval == pytest.approx(expected.interval)
    again = pooled(stored, stored)
    assert (again.of, again.against) == (stored.of, stored.against)


def test_the_difference_of_two_tests_has_no_error_of_the_lines_that_both_share() -> None:
    stored, new = result({1: 1.0, 2: 2.0}, {1: 0.0, 2: 0.5}, 9.0), result({3: 4.0, 4: 3.0}, {3: 1.0, 4: 0.0}, 9.0)
    effect = difference(stored, new)
    assert effect.mean == pytest.approx(3.0 - 1.25)
    values = [(1.0, 2.0), (0.0, 0.5), (4.0, 3.0), (1.0, 0.0)]
    parts = [statistics.variance(each) / 2 for each in values]
    freedom = sum(parts) ** 2 / sum(part**2 for part in parts)
    assert effect.half == pytest.approx(student_quantile(0.975, freedom) * math.sqrt(sum(parts)))
