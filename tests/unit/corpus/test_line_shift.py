"""Shifted lines are found in texts of random languages and in real corpora, and nothing else is taken for a shift."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from mtkit.corpus.line_shift import find_shift, forbid_shifted_lines
from mtkit.errors import DataError
from mtkit.text.lines import read_lines
from tests.toy.sampling import sampled

Text = tuple[list[str], list[str]]


def language(rng: random.Random, size: int) -> list[str]:
    return ["".join(rng.choices("abcdefghijklmnoprstuvz", k=rng.randint(2, 9))) for _ in range(size)]


def sentences(rng: random.Random, count: int) -> Text:
    """Words of two languages by Zipf's law, in another order, some without a translation, some with two."""
    size = rng.randint(100, 600)
    src, tgt = language(rng, size), language(rng, size)
    weights = [1 / (rank + 2) for rank in range(size)]
    rows = [rng.choices(range(size), weights, k=rng.randint(2, 25)) for _ in range(count)]
    translated = [[word for word in row for _ in range(rng.choice([0, 1, 1, 1, 1, 2]))] or row for row in rows]
    for row in translated:
        rng.shuffle(row)
    return [" ".join(src[word] for word in row) for row in rows], [
        " ".join(tgt[word] for word in row) for row in translated
    ]


def words(rng: random.Random, count: int) -> Text:
    """Single words and their pronunciation: each letter stands for one or two sounds."""
    sounds = {letter: "".join(rng.choices("əɪʊæθðʃŋ", k=rng.randint(1, 2))) for letter in "abcdefghijklmnoprstuvz"}
    lines = ["".join(rng.choices(list(sounds), k=rng.randint(2, 14))) for _ in range(count)]
    return lines, ["".join(sounds[letter] for letter in line) for line in lines]


def shifted(text: Text, shift: int) -> Text:
    src, tgt = text
    if shift >= 0:
        return src[shift:], tgt[: len(tgt) - shift]
    return src[:shift], tgt[-shift:]


@pytest.mark.parametrize("make", [sentences, words])
def test_shifts_of_random_languages(make) -> None:
    rng = random.Random(7)
    missed = 0
    for _ in range(sampled(60)):
        text = make(rng, rng.randint(300, 600))
        for shift in (0, rng.choice([-3, -2, -1]), rng.choice([1, 2, 3])):
            found = find_shift(*shifted(text, shift))
            assert found in (0, shift)
            missed += found != shift
    assert missed <= 2


def test_other_texts_are_not_shifted() -> None:
    """Texts that are no translations, lines of one length, an answer after each line, numbers, too few lines."""
    rng = random.Random(8)
    for _ in range(sampled(40)):
        one, other = sentences(rng, 300)[0], sentences(rng, 300)[1]
        assert find_shift(one, other) == 0
        assert find_shift(one[:-1], one[1:]) == 0  # a dialogue
        assert find_shift(["a b c"] * 200, other[:200]) == 0
        numbers = [str(rng.randrange(10 ** rng.randint(1, 14))) for _ in range(300)]
        assert find_shift(numbers, numbers) == 0
        assert find_shift(sorted(one), sorted(one, key=len)) == 0
        src, tgt = shifted(sentences(rng, 90), 1)
        assert find_shift(src, tgt) == 0
        assert find_shift([], []) == 0
        assert find_shift([""] * 300, one) == 0


def test_the_message_names_both_files(tmp_path: Path) -> None:
    text = sentences(random.Random(1), 3000)
    (src, tgt), (de, en) = (tmp_path / "x.de", tmp_path / "x.en"), text
    src.write_text("\n".join(de) + "\n")
    tgt.write_text("\n" + "\n".join(en[:-1]) + "\n")
    with pytest.raises(DataError) as error:
        forbid_shifted_lines(src, tgt)
    assert str(error.value) == (
        f"{src} and {tgt}: shifted by 1 line from the first line on: the translation of line n of x.de is line n + 1 "
        f"of x.en; remove 1 line from {tgt}, or add what {src} lacks"
    )
    src.write_text("\n".join([*de[:1500], *de[1502:], "x", "y"]) + "\n")
    tgt.write_text("\n".join(en) + "\n")
    with pytest.raises(
        DataError, match=r"shifted by 2 lines towards the end: .* line n of x.de is line n \+ 2 of x.en"
    ):
        forbid_shifted_lines(src, tgt)
    src.write_text("\n".join(de) + "\n")
    forbid_shifted_lines(src, tgt)


def test_real_corpora(corpora: Path) -> None:
    pairs = [
        ("multi30k/train", "en", "de"), ("tatoeba-de-en/train", "de", "en"), ("mafand-en-swa/train", "en", "swa"),
        ("pydocs-en-ja/train", "en", "ja"), ("small-enja/train", "en", "ja"), ("manpages-en-de/test", "en", "de"),
    ]  # fmt: skip
    for stem, one, other in pairs:
        src, tgt = (list(read_lines(corpora / f"{stem}.{lang}.gz"))[:2000] for lang in (one, other))
        for start in range(0, len(src) - 500, 500):
            text = (src[start : start + 500], tgt[start : start + 500])
            assert [find_shift(*shifted(text, shift)) for shift in (0, 1, -1)] == [0, 1, -1], (stem, start)
