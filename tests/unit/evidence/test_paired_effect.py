"""Effects: BLEU from sufficient statistics, Student's quantiles, and intervals that hold what they promise."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU

from mtkit.evidence.paired_effect import (
    BleuContrast,
    bleu_of_statistics,
    bleu_statistics,
    paired_effect,
    student_quantile,
)
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
    effect = paired_effect(differences)
    half = 3.182446 * statistics.stdev(differences) / 2
    assert (effect.low, effect.high) == (pytest.approx(1.375 - half, abs=1e-5), pytest.approx(1.375 + half, abs=1e-5))
    assert effect.mean == 1.375


def test_equal_seeds_leave_the_sentences_and_one_seed_leaves_no_interval() -> None:
    effect = paired_effect([2.0, 2.0, 2.0], sentence_error=0.5)
    assert effect.high == pytest.approx(2.0 + 1.96 * 0.5, abs=1e-3)
    assert (paired_effect([1.0]).low, paired_effect([1.0]).high) == (None, None)
    with pytest.raises(ValueError, match="at least one seed"):
        paired_effect([])


def test_intervals_hold_the_truth_in_95_percent_of_experiments() -> None:
    """Truth 1.0, seeds with deviation 0.6, test sentences with error 0.4, which all seeds of an experiment share."""
    generator = np.random.default_rng(0)
    experiments, held = 4000, 0
    for _ in range(experiments):
        differences = 1.0 + generator.normal(0, 0.4) + generator.normal(0, 0.6, size=3)
        effect = paired_effect(differences.tolist(), sentence_error=0.4)
        assert effect.low is not None
        assert effect.high is not None
        held += effect.low <= 1.0 <= effect.high
    assert 0.94 < held / experiments < 0.99  # standard error 0.0035; Satterthwaite is a little cautious


def test_bleu_contrast_resamples_lines_as_sacrebleu_does() -> None:
    """Mean and deviation against a plain bootstrap that scores each sample by sacreBLEU."""
    first, second = ({1: bleu_statistics(hyps, REF, tokenize="13a")} for hyps in (FIRST, SECOND))
    everything = np.ones(60, dtype=np.bool_)
    differences, effect = BleuContrast(first, second, [(1.0, everything)]).effect()
    metric, generator = BLEU(), np.random.default_rng(7)

    def bleu(hyps: list[str], lines: list[int]) -> float:
        return metric.corpus_score([hyps[line] for line in lines], [[REF[line] for line in lines]]).score

    samples = [generator.integers(0, 60, size=60).tolist() for _ in range(400)]
    expected = [bleu(FIRST, lines) - bleu(SECOND, lines) for lines in samples]
    assert differences == [pytest.approx(bleu(FIRST, list(range(60))) - bleu(SECOND, list(range(60))), abs=1e-9)]
    assert effect.sentence_error == pytest.approx(statistics.stdev(expected), rel=0.15)  # error of a deviation: 3.5%


def test_an_effect_by_length_is_the_difference_of_two_differences() -> None:
    first, second = ({1: bleu_statistics(hyps, REF, tokenize="13a")} for hyps in (FIRST, SECOND))
    is_long = np.asarray([len(line.split()) > 5 for line in REF])
    differences, _ = BleuContrast(first, second, [(1.0, is_long), (-1.0, ~is_long)]).effect(num_samples=2)
    parts = []
    for chosen in (is_long, ~is_long):
        lines = np.flatnonzero(chosen).tolist()
        ref = [[REF[line] for line in lines]]
        of, against = (BLEU().corpus_score([hyps[line] for line in lines], ref).score for hyps in (FIRST, SECOND))
        parts.append(of - against)
    assert differences == [pytest.approx(parts[0] - parts[1], abs=1e-9)]
