"""Random segmentations: against sentencepiece without chance, against enumeration, and the same in every process."""

from __future__ import annotations

import io
import itertools
import math
import random
import subprocess
import sys
from collections import Counter

import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st

from mtkit.text.subword_regularization import Sampler

LINES = [
    "the quick brown fox jumps over the lazy dog",
    "a quicker fox overjumps lazier dogs , 3 of 4 !",
    "low lower lowest new newer newest wide wider widest overt over cover",
] * 30
SIZES = {("bpe", False): 80, ("bpe", True): 330, ("unigram", False): 56, ("unigram", True): 312}
DRAWS = 4_000
PROGRAM = """
import sys, sentencepiece
from mtkit.text.sampling import Sampler
sampler = Sampler(sentencepiece.SentencePieceProcessor(model_proto=sys.stdin.buffer.read()))
print([sampler("the lower fox overjumps", seed=seed, alpha=0.3) for seed in range(9)])
"""


@pytest.fixture(scope="module")
def models() -> dict[tuple[str, bool], bytes]:
    return {key: learn(*key) for key in SIZES}


def learn(kind: str, byte_fallback: bool) -> bytes:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES),
        model_writer=model,
        model_type=kind,
        vocab_size=SIZES[kind, byte_fallback],
        byte_fallback=byte_fallback,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        hard_vocab_limit=kind == "bpe",  # unigram finds fewer pieces in so little text
        num_threads=1,
        minloglevel=2,
    )
    return model.getvalue()


def processor_of(model: bytes) -> sentencepiece.SentencePieceProcessor:
    return sentencepiece.SentencePieceProcessor(model_proto=model)


@settings(deadline=None)
@given(line=st.text(st.sampled_from("the quickbrownfx  語Ä,"), max_size=30))
@pytest.mark.parametrize("byte_fallback", [False, True])
def test_bpe_without_dropout_is_sentencepieces(models, byte_fallback, line) -> None:
    processor = processor_of(models["bpe", byte_fallback])
    assert Sampler(processor)(line, seed=1, alpha=0.0) == processor.encode(line)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@pytest.mark.parametrize("byte_fallback", [False, True])
def test_every_draw_spells_the_line(models, kind, byte_fallback) -> None:
    processor = processor_of(models[kind, byte_fallback])
    sampler = Sampler(processor)
    for seed in range(50):
        assert processor.decode(sampler(LINES[0], seed=seed, alpha=0.3)) == LINES[0]


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_another_process_draws_the_same(models, kind) -> None:
    model = models[kind, False]
    sampler = Sampler(processor_of(model))
    here = [sampler("the lower fox overjumps", seed=seed, alpha=0.3) for seed in range(9)]
    there = subprocess.run([sys.executable, "-c", PROGRAM], input=model, capture_output=True, check=True)
    assert there.stdout.decode().strip() == str(here)
    assert len({tuple(ids) for ids in here}) > 1


def test_merges_are_left_out_as_often_as_alpha_says(models) -> None:
    processor = processor_of(models["bpe", False])
    sampler = Sampler(processor)
    pair = next(p for p in map(processor.id_to_piece, range(3, processor.get_piece_size())) if len(p) == 2)
    chance = random.Random(1)
    left_out = sum(sampler.merged(pair, 0.3, chance) == list(pair) for _ in range(DRAWS))
    assert abs(left_out / DRAWS - 0.3) < 4 * math.sqrt(0.3 * 0.7 / DRAWS)  # four standard deviations


def test_unigram_draws_by_the_power_of_the_probability(models) -> None:
    processor = processor_of(models["unigram", False])
    sampler = Sampler(processor)
    word, alpha = "\u2581over", 0.5
    scores = {processor.id_to_piece(i): processor.get_score(i) for i in range(3, processor.get_piece_size())}
    ways = {
        parts: math.exp(alpha * sum(scores[part] for part in parts))
        for parts in segmentations(word)
        if all(part in scores for part in parts)
    }
    assert len(ways) > 3
    chance = random.Random(1)
    found = Counter(tuple(sampler.drawn(word, alpha, chance)) for _ in range(DRAWS))
    assert set(found) <= set(ways)
    for parts, weight in ways.items():
        expected = weight / sum(ways.values())
        assert abs(found[parts] / DRAWS - expected) < 4 * math.sqrt(expected * (1 - expected) / DRAWS) + 1e-9


def segmentations(word: str) -> list[tuple[str, ...]]:
    """All of them, by cutting or not cutting between any two characters."""
    found = []
    for cuts in itertools.product([False, True], repeat=len(word) - 1):
        parts, begin = [], 0
        for place in [i + 1 for i, cut in enumerate(cuts) if cut] + [len(word)]:
            parts.append(word[begin:place])
            begin = place
        found.append(tuple(parts))
    return found


def test_a_word_model_has_nothing_to_draw_from() -> None:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES), model_writer=model, model_type="word", vocab_size=18, minloglevel=2
    )
    with pytest.raises(RuntimeError):
        Sampler(processor_of(model.getvalue()))
