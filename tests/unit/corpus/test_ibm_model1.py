"""IBM Model 1 against an implementation in loops, and against a dictionary that it must recover."""

from __future__ import annotations

import random
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

import mtkit.corpus.ibm_model1 as module
from mtkit.corpus.ibm_model1 import Lexicon, learn_lexicon
from mtkit.corpus.order.ragged import Ragged
from mtkit.errors import DataError
from mtkit.text.vocab import Vocab

VOCAB = Vocab(size=40, pad=0, unk=1, bos=2, eos=3)
Pair = tuple[list[int], list[int]]


class Corpus:
    """The part of a store that the aligner uses."""

    def __init__(self, pairs: list[Pair]) -> None:
        self.sides = {"src": Ragged.of([p[0] for p in pairs]), "tgt": Ragged.of([p[1] for p in pairs])}

    def ids(self, side):
        return self.sides[side]

    def __len__(self):
        return len(self.sides["src"])

    def release_pages(self):
        """There are none."""

    def stats(self, side):
        return type("Stats", (), {"vocab": VOCAB})


def dictionary_corpus(count: int, seed: int = 0) -> list[Pair]:
    """Word w translates to w + 20, in any order; a frequent 39 has no source word."""
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


@pytest.mark.parametrize(("block", "chunk"), [(50, 3), (50, 10**5), (10**6, 10**5)])
def test_probabilities_are_those_of_model_1(block, chunk, monkeypatch):
    monkeypatch.setattr(module, "BLOCK_PAIRS", block)
    monkeypatch.setattr(module, "CHUNK", chunk)
    pairs = [*dictionary_corpus(30), ([], [5]), ([4], [])]
    lexicon = learn_lexicon([Corpus(pairs[:10]), Corpus(pairs[10:])])
    truth = model_one(pairs, module.ITERATIONS)
    learned = {
        (s, int(t)): float(p)
        for s in range(VOCAB.size)
        for t, p in zip(
            lexicon.targets[s],
            lexicon.probabilities[lexicon.targets.offsets[s] : lexicon.targets.offsets[s + 1]],
            strict=True,
        )
    }
    likely = {key: value for key, value in truth.items() if value >= module.MIN_PROB * 1.01}
    assert learned.keys() >= likely.keys()
    assert all(learned[key] == pytest.approx(truth[key], rel=1e-3) for key in learned)
    for s in range(VOCAB.size):
        row = [learned[s, int(t)] for t in lexicon.targets[s]]
        assert row == sorted(row, reverse=True)
    counts = np.bincount([t for _, tgt in pairs for t in tgt], minlength=VOCAB.size)
    assert [counts[t] for t in lexicon.frequent] == sorted(counts, reverse=True)


@pytest.mark.parametrize("max_pairs", [10**7, 1500])
def test_dictionary_is_recovered_also_from_a_part_of_a_large_corpus(max_pairs, monkeypatch):
    monkeypatch.setattr(module, "MAX_PAIRS", max_pairs)
    monkeypatch.setattr(module, "BLOCK_PAIRS", 300)
    monkeypatch.setattr(module, "MIN_COUNT", 10)
    rare = ([19], [38])
    lexicon = learn_lexicon([Corpus([*dictionary_corpus(300), rare])])
    assert [int(lexicon.targets[word][0]) for word in range(4, 18)] == [word + 20 for word in range(4, 18)]
    assert int(lexicon.targets[VOCAB.eos][0]) == 39
    assert 38 in lexicon.targets[19] or max_pairs == 1500


def test_pruned_lists_are_prefixes():
    lexicon = learn_lexicon([Corpus(dictionary_corpus(100))])
    pruned = lexicon.pruned(max_targets=2, min_prob=0.05)
    assert pruned.targets.lengths.max() == 2
    assert pruned.probabilities.min() >= 0.05
    for s in range(VOCAB.size):
        assert list(pruned.targets[s]) == list(lexicon.targets[s][: len(pruned.targets[s])])


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
