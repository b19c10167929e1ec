"""Alignment error rate on links counted by hand; the lexicon's alignment against a search over all positions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mtkit.analysis.word_alignment import (
    AlignmentErrors,
    LexiconAligner,
    ReferenceAlignment,
    read_alignments,
)
from mtkit.corpus.ibm_model1 import Lexicon
from mtkit.corpus.order.ragged import Ragged
from mtkit.errors import DataError


def test_error_rate_counts_links_of_all_sentences() -> None:
    errors = AlignmentErrors()
    errors.add({(0, 0), (1, 1), (2, 3)}, ReferenceAlignment({(0, 0), (2, 2)}, {(0, 0), (2, 2), (1, 1)}))
    errors.add({(0, 1)}, ReferenceAlignment({(0, 1)}, {(0, 1)}))
    # A ∩ S: (0, 0) and (0, 1); A ∩ P: these and (1, 1); |A| = 4, |S| = 3
    assert errors.error_rate == pytest.approx(1 - (2 + 3) / (4 + 3))


def test_a_perfect_alignment_has_no_errors_and_an_empty_one_no_rate() -> None:
    errors = AlignmentErrors()
    assert errors.error_rate is None
    errors.add({(0, 0)}, ReferenceAlignment({(0, 0)}, {(0, 0)}))
    assert errors.error_rate == 0


def test_files_have_sure_and_possible_links(tmp_path: Path) -> None:
    path = tmp_path / "alignments"
    path.write_text("0-0 1?2\n\n2-1\n")
    first, second, third = read_alignments(path, [(2, 3), (1, 1), (3, 2)])
    assert (first.sure, first.possible) == ({(0, 0)}, {(0, 0), (1, 2)})
    assert (second.sure, second.possible) == (set(), set())
    assert third.sure == {(2, 1)}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0-0\n", r"1 lines for 2 sentence pairs"),
        ("0-0\n0:1\n", r"alignments:2: '0:1' is not a link; write 0-1"),
        ("0-0\n5-0\n", r"alignments:2: 5-0: the pair has 2 source and 2 target words"),
        ("0-0\n0-²\n", r"alignments:2: '0-²' is not a link"),
        ("0-0\n0-99999999999999999999\n", r"alignments:2: '0-9+' is not a link"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "alignments"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        read_alignments(path, [(2, 2), (2, 2)])


def test_the_lexicon_links_each_target_to_its_most_probable_source() -> None:
    rng = np.random.default_rng(3)
    probabilities = rng.random((8, 9)) * (rng.random((8, 9)) < 0.6)
    order = np.argsort(-probabilities, axis=1)
    rows = [[int(t) for t in order[s] if probabilities[s, t] > 0] for s in range(8)]
    flat = np.array([probabilities[s, t] for s in range(8) for t in rows[s]], dtype=np.float16)
    eos = 3
    aligner = LexiconAligner(Lexicon(Ragged.of(rows), flat, np.arange(9, dtype=np.int32)), eos)
    linked = 0
    for _ in range(50):
        src = rng.choice([0, 1, 2, 4, 5, 6, 7], rng.integers(0, 6)).tolist()
        tgt = rng.integers(0, 9, rng.integers(0, 6)).tolist()
        expected = []
        for t, target in enumerate(tgt):
            best, link = np.float16(probabilities[eos, target]), None
            if src and (most := max(np.float16(probabilities[s, target]) for s in src)) >= best and most > 0:
                link = next(i for i, s in enumerate(src) if np.float16(probabilities[s, target]) == most)
            if link is not None:
                expected.append((link, t))
        assert aligner.links(src, tgt) == expected
        linked += len(expected)
    assert linked > 50
