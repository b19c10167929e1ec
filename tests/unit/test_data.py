"""The embedded corpus: its counts, its size, and that nothing leaks from one part into another."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest

DATA = Path(__file__).resolve().parents[2] / "data"
sys.path.insert(0, str(DATA))

import generate  # noqa: E402

PARTS = ("train", "valid", "test")


@pytest.fixture(scope="module")
def corpus() -> dict[str, list[tuple[str, str]]]:
    sides = {
        file: (DATA / file).read_text(encoding="utf-8").removesuffix("\n").split("\n")
        for part in PARTS
        for file in (f"{part}.en", f"{part}.de")
    }
    return {part: list(zip(sides[f"{part}.en"], sides[f"{part}.de"], strict=True)) for part in PARTS}


@pytest.mark.whole
def test_the_program_writes_the_same_bytes(tmp_path):
    generate.main(tmp_path)
    for part in PARTS:
        for side in ("en", "de"):
            assert (tmp_path / f"{part}.{side}").read_bytes() == (DATA / f"{part}.{side}").read_bytes()


def test_there_are_enough_pairs_in_few_bytes(corpus):
    assert len(corpus["train"]) >= 12_000
    assert (len(corpus["valid"]), len(corpus["test"])) == (500, 500)
    files = [path for path in DATA.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert sum(path.stat().st_size for path in files) < 2_000_000


def test_the_readme_tells_the_counts(corpus):
    readme = (DATA / "README.md").read_text(encoding="utf-8")
    for part in PARTS:
        words = [f"{sum(len(pair[side].split(' ')) for pair in corpus[part]):,}" for side in (0, 1)]
        assert f"| `{part}.en`, `{part}.de` | {len(corpus[part]):,} | {words[0]} | {words[1]} |" in readme


@pytest.mark.parametrize("side", [0, 1])
def test_no_sentence_occurs_twice(corpus, side):
    sentences = [pair[side] for part in PARTS for pair in corpus[part]]
    assert len(set(sentences)) == len(sentences)


@pytest.mark.parametrize("side", [0, 1])
def test_held_out_sentences_consist_of_trained_words(corpus, side):
    trained = Counter(word for pair in corpus["train"] for word in generate.tokens(pair[side]))
    held_out = {word for part in ("valid", "test") for pair in corpus[part] for word in generate.tokens(pair[side])}
    assert {word for word in held_out if trained[word] < 3} == set()
    assert len(trained) > 900


def test_sentences_are_well_formed(corpus):
    for pair in (pair for part in PARTS for pair in corpus[part]):
        for text in pair:
            assert text[0].isupper() or text[0].isdigit()
            assert text[-1] in ".?!"
            assert "  " not in text
            assert " ," not in text
            assert ",," not in text
            assert text == text.strip()
            assert 2 <= len(text.split(" ")) <= generate.LONGEST
        assert pair[0][-1] == pair[1][-1]


@pytest.mark.parametrize(
    "construction",
    [
        "weil",
        "obwohl",
        "dass",
        "wenn",
        "als",
        "während",
        "bevor",
        "ob",
        "um",
        "gern",
        "kein",
        "nicht",
        "nie",
        "gerade",
        "halb",
        "einundzwanzig",
        "möchte",
        "nach",
        "zum",
        "ins",
        "Welche|Welches|Welchen",
        "Warum",
        "Wohin",
        "Wen|Wem",
        "Wie",
        "größer",
        "denen",
    ],
)
def test_the_corpus_has_every_construction(corpus, construction):
    words = Counter(word for pair in corpus["train"] for word in generate.tokens(pair[1]))
    assert sum(words[word] for word in construction.split("|")) >= 5
