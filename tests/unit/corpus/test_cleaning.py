from pathlib import Path

import numpy as np
import pytest

from mtkit.corpus.binarise import REASONS, CleaningReport, rejection_reasons
from mtkit.corpus.config import CleaningConfig
from mtkit.errors import RecipeError
from mtkit.recipe import schema
from mtkit.recipe.located import with_location


def reasons(src, tgt, **bounds):
    numbers = rejection_reasons(CleaningConfig(**bounds), np.array(src), np.array(tgt))
    return [None if number < 0 else REASONS[number] for number in numbers]


def test_first_reason_counts():
    assert reasons([0, 5, 11, 10, 1], [5, 0, 10, 10, 11], max_length=10) == [
        "empty", "empty", "too_long", None, "too_long",
    ]  # fmt: skip


def test_ratio_does_not_apply_to_short_sentences():
    assert reasons([1, 2, 20, 3], [20, 21, 1, 28], max_ratio=9, min_length_for_ratio=20) == [
        None,
        "ratio",
        None,
        "ratio",
    ]
    assert reasons([3], [27], max_ratio=9) == [None]


def test_report_counts_by_reason_with_line_numbers_over_blocks():
    report = CleaningReport()
    report.add(np.array([-1, 0, -1]), np.arange(1, 4))
    report.add(np.array([0, 2] + [0] * 9), np.arange(4, 15))
    assert (report.lines, report.kept) == (14, 2)
    assert report.dropped == {"empty": 11, "too_long": 0, "ratio": 1, "filters": 0}
    assert report.examples == {"empty": [2, 4, 6, 7, 8], "too_long": [], "ratio": [5], "filters": []}
    assert report.summary() == [
        "2 of 14 pairs kept",
        "11 dropped because one side is empty: line 2, 4, 6, 7, 8, ...",
        "1 dropped because the length ratio exceeds cleaning.max_ratio: line 5",
    ]


@pytest.mark.parametrize("bad", [{"max_length": 0}, {"max_ratio": 0.5}, {"min_length_for_ratio": -1}])
def test_limits_out_of_range_are_rejected(bad):
    with pytest.raises(RecipeError, match="must be"):
        schema.build(CleaningConfig, with_location(bad, "recipe", Path()))
