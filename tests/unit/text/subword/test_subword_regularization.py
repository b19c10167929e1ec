"""Subword regularization: against sentencepiece at p = 0, against enumeration, and identical in every process."""

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
from hypothesis import given
from hypothesis import strategies as st

from mtkit.text.subword.sampling import SubwordSampler

LINES = [
    "the quick brown fox jumps over the lazy dog",
    "a quicker fox overjumps lazier dogs , 3 of 4 !",
    "low lower lowest new newer newest wide wider widest overt over cover",
] * 30
SIZES = {("bpe", False): 80, ("bpe", True): 330, ("unigram", False): 56, ("unigram", True): 312}
NUM_SAMPLES = 4_000
PROGRAM = """
import sys, sentencepiece
from mtkit.text.subword.sampling import SubwordSampler
sampler = SubwordSampler(sentencepiece.SentencePieceProcessor(model_proto=sys.stdin.buffer.read()))
print([sampler("the lower fox overjumps", seed=seed, alpha=0.3) for seed in range(9)])
"""


@pytest.fixture(scope="module")
def models() -> dict[tuple[str, bool], bytes]:
    return {key: train(*key) for key in SIZES}


def train(kind: str, byte_fallback: bool) -> bytes:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES),
        model_writer=model,
        model_type=kind,
        vocab_size=SIZES[kind, byte_fallback],
        byte_fallback=byte_fallback,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        hard_vocab_limit=kind == "bpe",  # unigram finds fewer pieces in this little text
        num_threads=1,
        minloglevel=2,
    )
    return model.getvalue()


def processor_of(model: bytes) -> sentencepiece.SentencePieceProcessor:
    return sentencepiece.SentencePieceProcessor(model_proto=model)


@given(line=st.text(st.sampled_from("the quickbrownfx  語Ä,"), max_size=30))
@pytest.mark.parametrize("byte_fallback", [False, True])
def test_bpe_without_dropout_equals_sentencepiece(models, byte_fallback, line) -> None:
    processor = processor_of(models["bpe", byte_fallback])
    assert SubwordSampler(processor)(line, seed=1, alpha=0.0) == processor.encode(line)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@pytest.mark.parametrize("byte_fallback", [False, True])
def test_every_sample_decodes_to_the_line(models, kind, byte_fallback) -> None:
    processor = processor_of(models[kind, byte_fallback])
    sampler = SubwordSampler(processor)
    for seed in range(50):
        assert processor.decode(sampler(LINES[0], seed=seed, alpha=0.3)) == LINES[0]


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_samples_are_identical_in_another_process(models, kind) -> None:
    model = models[kind, False]
    sampler = SubwordSampler(processor_of(model))
    here = [sampler("the lower fox overjumps", seed=seed, alpha=0.3) for seed in range(9)]
    there = subprocess.run([sys.executable, "-c", PROGRAM], input=model, capture_output=True, check=True)
    assert there.stdout.decode().strip() == str(here)
    assert len({tuple(ids) for ids in here}) > 1


def test_bpe_dropout_skips_merges_at_rate_alpha(models) -> None:
    processor = processor_of(models["bpe", False])
    sampler = SubwordSampler(processor)
    pair = next(p for p in map(processor.id_to_piece, range(3, processor.get_piece_size())) if len(p) == 2)
    rng = random.Random(1)
    skipped = sum(sampler.bpe_dropout(pair, 0.3, rng) == list(pair) for _ in range(NUM_SAMPLES))
    assert abs(skipped / NUM_SAMPLES - 0.3) < 4 * math.sqrt(0.3 * 0.7 / NUM_SAMPLES)  # four standard deviations


def test_unigram_samples_by_probability_to_the_power_alpha(models) -> None:
    processor = processor_of(models["unigram", False])
    sampler = SubwordSampler(processor)
    word, alpha = "\u2581over", 0.5
    scores = {processor.id_to_piece(i): processor.get_score(i) for i in range(3, processor.get_piece_size())}
    weights = {
        pieces: math.exp(alpha * sum(scores[piece] for piece in pieces))
        for pieces in segmentations(word)
        if all(piece in scores for piece in pieces)
    }
    assert len(weights) > 3
    rng = random.Random(1)
    counts = Counter(tuple(sampler.sample_unigram(word, alpha, rng)) for _ in range(NUM_SAMPLES))
    assert set(counts) <= set(weights)
    for pieces, weight in weights.items():
        expected = weight / sum(weights.values())
        deviation = math.sqrt(expected * (1 - expected) / NUM_SAMPLES)
        assert abs(counts[pieces] / NUM_SAMPLES - expected) < 4 * deviation + 1e-9


def segmentations(word: str) -> list[tuple[str, ...]]:
    """All segmentations: a cut or no cut between any two characters."""
    result = []
    for cuts in itertools.product([False, True], repeat=len(word) - 1):
        pieces, start = [], 0
        for end in [i + 1 for i, cut in enumerate(cuts) if cut] + [len(word)]:
            pieces.append(word[start:end])
            start = end
        result.append(tuple(pieces))
    return result


def test_word_model_is_rejected() -> None:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES), model_writer=model, model_type="word", vocab_size=18, minloglevel=2
    )
    with pytest.raises(RuntimeError):
        SubwordSampler(processor_of(model.getvalue()))
