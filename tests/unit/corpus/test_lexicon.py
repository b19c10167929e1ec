"""The aligner against IBM model 1 written as loops, and against a dictionary that it must find."""

from __future__ import annotations

import random
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

import mtkit.corpus.lexicon as module
from mtkit.corpus.lexicon import Lexicon, learn_lexicon
from mtkit.corpus.order.ragged import Ragged
from mtkit.errors import DataError
from mtkit.text.vocab import Vocab

VOCAB = Vocab(size=40, pad=0, unk=1, bos=2, eos=3)
Pair = tuple[list[int], list[int]]


class Corpus:
    """What the aligner asks of a store."""

    def __init__(self, pairs: list[Pair]) -> None:
        self.sides = {"src": Ragged.of([p[0] for p in pairs]), "tgt": Ragged.of([p[1] for p in pairs])}

    def all_ids(self, side):
        return self.sides[side]

    def lengths(self, side):
        return self.sides[side].lengths

    def summary(self, side):
        return type("Summary", (), {"vocab": VOCAB})


def dictionary_corpus(count: int, seed: int = 0) -> list[Pair]:
    """Word w becomes w + 20, in any order; a frequent 39 belongs to nothing."""
    rng = random.Random(seed)
    pairs = []
    for _ in range(count):
        src = rng.choices(range(4, 18), k=rng.randint(1, 6))
        tgt = [word + 20 for word in src] + [39] * rng.randint(0, 2)
        rng.shuffle(tgt)
        pairs.append((src, tgt))
    return pairs


def model_one(pairs: list[Pair], iterations: int) -> dict[tuple[int, int], float]:
    probability: dict[tuple[int, int], float] = defaultdict(lambda: 1.0)
    for _ in range(iterations):
        count: dict[tuple[int, int], float] = defaultdict(float)
        for src, tgt in pairs:
            for t in tgt:
                total = sum(probability[s, t] for s in [*src, VOCAB.eos])
                for s in [*src, VOCAB.eos]:
                    count[s, t] += probability[s, t] / total
        by_source: dict[int, float] = defaultdict(float)
        for (s, _), value in count.items():
            by_source[s] += value
        probability = defaultdict(float, {key: value / by_source[key[0]] for key, value in count.items()})
    return probability


@pytest.mark.parametrize("block", [50, 10**6])
def test_it_is_model_one(block, monkeypatch):
    monkeypatch.setattr(module, "BLOCK_LINKS", block)
    pairs = [*dictionary_corpus(30), ([], [5]), ([4], [])]
    lexicon = learn_lexicon([Corpus(pairs[:10]), Corpus(pairs[10:])])
    truth = model_one(pairs, module.ITERATIONS)
    found = {
        (s, int(t)): float(p)
        for s in range(VOCAB.size)
        for t, p in zip(
            lexicon.targets[s],
            lexicon.probabilities[lexicon.targets.offsets[s] : lexicon.targets.offsets[s + 1]],
            strict=True,
        )
    }
    wanted = {key: value for key, value in truth.items() if value >= module.LEAST * 1.01}
    assert found.keys() >= wanted.keys()
    assert all(found[key] == pytest.approx(truth[key], rel=1e-3) for key in found)
    for s in range(VOCAB.size):
        row = [found[s, int(t)] for t in lexicon.targets[s]]
        assert row == sorted(row, reverse=True)
    counts = np.bincount([t for _, tgt in pairs for t in tgt], minlength=VOCAB.size)
    assert [counts[t] for t in lexicon.frequent] == sorted(counts, reverse=True)


@pytest.mark.parametrize("most", [10**7, 1500])
def test_it_finds_the_dictionary_also_in_a_part_of_a_large_corpus(most, monkeypatch):
    monkeypatch.setattr(module, "MOST_LINKS", most)
    monkeypatch.setattr(module, "BLOCK_LINKS", 300)
    monkeypatch.setattr(module, "ENOUGH", 10)
    rare = ([19], [38])
    lexicon = learn_lexicon([Corpus([*dictionary_corpus(300), rare])])
    assert [int(lexicon.targets[word][0]) for word in range(4, 18)] == [word + 20 for word in range(4, 18)]
    assert int(lexicon.targets[VOCAB.eos][0]) == 39
    assert 38 in lexicon.targets[19] or most == 1500


def test_narrower_lists():
    lexicon = learn_lexicon([Corpus(dictionary_corpus(100))])
    narrow = lexicon.narrowed(longest=2, least=0.05)
    assert narrow.targets.lengths.max() == 2
    assert narrow.probabilities.min() >= 0.05
    for s in range(VOCAB.size):
        assert list(narrow.targets[s]) == list(lexicon.targets[s][: len(narrow.targets[s])])


def test_save_and_load(tmp_path: Path):
    lexicon = learn_lexicon([Corpus(dictionary_corpus(20))])
    lexicon.save(tmp_path / "a")
    lexicon.save(tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    again = Lexicon.load(tmp_path / "a")
    assert np.array_equal(again.targets.flat, lexicon.targets.flat)
    assert np.array_equal(again.targets.offsets, lexicon.targets.offsets)
    assert np.array_equal(again.probabilities, lexicon.probabilities)
    assert np.array_equal(again.frequent, lexicon.frequent)
    (tmp_path / "a").write_bytes((tmp_path / "a").read_bytes()[:50])
    with pytest.raises(DataError, match="a: damaged"):
        Lexicon.load(tmp_path / "a")
