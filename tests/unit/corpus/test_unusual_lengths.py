"""Valid and test sets of texts with unusual lines, such as dictionaries, numbers and documents, are like the text."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mtkit.corpus.split import HeldOutLines, PairPositions, TextFindings, hash_pairs
from mtkit.errors import DataError
from mtkit.pipeline.new_recipe import ParallelText, split_corpus
from tests.toy.sampling import sampled


def word(rng: random.Random, shortest: int, longest: int, letters: str = "abcdefghijklmnoprstuvz") -> str:
    return "".join(rng.choices(letters, k=rng.randint(shortest, longest)))


KINDS: dict[str, Callable[[random.Random], str]] = {
    "words": lambda rng: word(rng, 2, 14),
    "numbers": lambda rng: word(rng, 3, 14, "0123456789"),
    "letters and words": lambda rng: word(rng, 1, 1 + rng.choice([3, 9])) + word(rng, 1, 5),
    "Chinese": lambda rng: word(rng, 2, 30, "的一是了我不人在他有这个上们来到时大地为子中你说生国年着就那和要"),
    "dictionary and sentences": lambda rng: " ".join(word(rng, 2, 8) for _ in range(rng.choice([1, 1, 12]))),
    "sentences": lambda rng: " ".join(word(rng, 2, 8) for _ in range(rng.randint(3, 25))),
    "documents": lambda rng: " ".join(word(rng, 2, 8) for _ in range(rng.randint(150, 600))),
    "one length": lambda rng: word(rng, 1199, 1199),
}


def text(rng: random.Random, kind: str, count: int) -> tuple[list[str], list[str]]:
    src = list(dict.fromkeys(KINDS[kind](rng) for _ in range(count)))
    return src, [line.upper()[::-1] for line in src]


def write(folder: Path, lines: tuple[list[str], list[str]]) -> tuple[Path, Path]:
    paths = folder / "x.a", folder / "x.b"
    for path, side in zip(paths, lines, strict=True):
        path.write_text("".join(f"{line}\n" for line in side))
    return paths


@pytest.mark.whole
@pytest.mark.parametrize("kind", KINDS)
def test_held_out_lines_are_like_the_text(tmp_path: Path, kind: str) -> None:
    rng = random.Random(kind)
    for _ in range(sampled(26)):
        lines = text(rng, kind, rng.randint(300, 500))
        hashed = hash_pairs(*write(tmp_path, lines))
        limits = hashed.limits()
        positions = hashed.positions(limits)
        held_out = positions < limits.test
        lengths = np.array([len(line) for line in lines[0]])
        assert (positions > 1).mean() <= 0.12
        assert 20 <= held_out.sum() <= 60
        usual = lengths[positions < 1]
        share = (lengths[held_out] <= np.median(usual)).mean()  # of held-out lines below the median of all
        assert abs(share - (usual <= np.median(usual)).mean()) < 0.35


def test_sentences_keep_the_usual_limits(tmp_path: Path) -> None:
    limits = hash_pairs(*write(tmp_path, text(random.Random(1), "sentences", 400))).limits()
    assert (limits.min_characters, limits.max_characters) == (10, 1000)


@pytest.mark.parametrize(("pairs", "count"), [(2_000, 100), (200_000, 1000)])
def test_held_out_sets_have_a_share_of_the_pairs_and_at_most_a_thousand(pairs: int, count: int) -> None:
    hashes = np.random.default_rng(1).random(pairs)
    hashed = PairPositions(hashes, np.full((pairs, 2), 50), False, TextFindings())
    limits = hashed.limits()
    assert (hashes < limits.valid).sum() == count
    assert (hashes < limits.test).sum() == 2 * count


def test_the_report_says_what_is_left_out(tmp_path: Path) -> None:
    rng = random.Random(2)
    lines = text(rng, "numbers", 400)
    corpus = ParallelText(*write(tmp_path, lines), ("a", "b"), None, {})
    report = split_corpus(corpus, tmp_path / "data")
    short = sum(len(line) < 3 for line in lines[0])
    assert short == 0
    assert not any("left out of valid" in line for line in report.describe())
    test = (tmp_path / "data" / "test.a").read_text().split()
    assert min(map(len, test)) < 8
    train = set((tmp_path / "data" / "train.a").read_text().split())
    assert not train & set(test)  # also of short lines
    grown = [*lines[0], "1", "2"], [*lines[1], "1", "2"]
    corpus = ParallelText(*write(tmp_path, grown), ("a", "b"), None, {})
    described = split_corpus(corpus, tmp_path / "data").describe()
    assert "2 pairs left out of valid and test, with a side of under 3 or over 1,000 characters" in described
    assert (tmp_path / "data" / "test.a").read_text().split() == test  # the limits of the first split are kept


def test_too_few_pairs_name_the_true_reason(tmp_path: Path) -> None:
    lines = ["x" * 1199] * 2 + [""] * 118
    paths = write(tmp_path, (lines, lines))
    with pytest.raises(DataError, match="120 pairs, 118 of them with a blank side, are too few to hold valid and test"):
        hash_pairs(*paths).limits()
    assert HeldOutLines(set(), set(), 3).matches("abc", "abc") == (False, False)
