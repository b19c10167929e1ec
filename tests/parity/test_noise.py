"""Noise against the enumeration of all its outcomes, with probabilities derived from the papers."""

from collections import Counter, defaultdict
from itertools import combinations, pairwise, product
from math import comb, exp, factorial, sqrt

import numpy as np

from mtkit.config import construct
from mtkit.corpus.config import BartNoiseConfig, MLMMaskingConfig, SpanCorruptionConfig
from mtkit.corpus.noise import NoiseVocab
from mtkit.corpus.order.hash_rng import RowRandom
from mtkit.corpus.order.ragged import Ragged

NUM_SENTENCES = 40_000
MASK, SPANS, TEXT = 4, list(range(10, 42)), [50, 51, 52]
NOISE_VOCAB = NoiseVocab(MASK, np.array(SPANS), np.array(TEXT), np.zeros(99, dtype=bool), np.ones(99, dtype=bool))


def outcomes(config, sentence):
    """The number of each (source, target) pair over NUM_SENTENCES samples of the noise."""
    rng = RowRandom.of(7, np.arange(NUM_SENTENCES), np.zeros(NUM_SENTENCES, dtype=np.int64))
    noised = construct(config, NOISE_VOCAB)(Ragged.of([sentence] * NUM_SENTENCES), rng)
    return Counter((tuple(noised.src[n].tolist()), tuple(noised.tgt[n].tolist())) for n in range(NUM_SENTENCES))


def assert_likely(counted, expected):
    """Each count is within five standard deviations of its expectation, and no impossible outcome occurs."""
    assert abs(sum(expected.values()) - 1) < 1e-9
    assert counted.keys() <= expected.keys()
    for outcome, probability in expected.items():
        bound = 5 * sqrt(NUM_SENTENCES * probability * (1 - probability)) + 1
        assert abs(counted[outcome] - NUM_SENTENCES * probability) <= bound, (outcome, probability, counted[outcome])


def partitions(total, parts):
    """All ways of cutting a row of `total` into non-empty parts, by their lengths."""
    for cuts in combinations(range(1, total), parts - 1):
        edges = (0, *cuts, total)
        yield [b - a for a, b in pairwise(edges)]


def test_span_corruption_as_in_raffel_et_al():
    """Of 9 tokens round(0.4 · 9) = 4 are removed in round(4 / 2) = 2 spans, each after a remaining part."""
    sentence = list(range(60, 69))
    ways = list(product(partitions(5, 2), partitions(4, 2)))
    expected = defaultdict(float)
    for kept, removed in ways:
        rest, src, tgt = list(sentence), [], []
        for number in range(2):
            src += [rest.pop(0) for _ in range(kept[number])]
            src.append(SPANS[number])
            tgt.append(SPANS[number])
            tgt += [rest.pop(0) for _ in range(removed[number])]
        expected[tuple(src), (*tgt, SPANS[2])] += 1 / len(ways)
    assert_likely(outcomes(SpanCorruptionConfig(noise_density=0.4, mean_span_length=2.0), sentence), expected)


def test_mlm_as_in_devlin_et_al():
    """Of 6 tokens round(0.3 · 6) = 2 are chosen; each becomes the mask, one of 3 tokens, or stays."""
    sentence = [60, 61, 50, 62, 63, 64]
    expected = defaultdict(float)
    for columns in combinations(range(6), 2):
        actions = [(0.7, MASK), (0.1, None), *((0.2 / 3, other) for other in TEXT)]
        for chosen in product(actions, repeat=2):
            src, probability = list(sentence), 1 / comb(6, 2)
            for column, (share, token) in zip(columns, chosen, strict=True):
                probability *= share
                src[column] = sentence[column] if token is None else token
            expected[tuple(src), tuple(sentence)] += probability
    assert_likely(
        outcomes(MLMMaskingConfig(masking_rate=0.3, mask_replace_prob=0.7, random_replace_prob=0.2), sentence), expected
    )


def span_lengths(num_removed, mean, lengths=()):
    """All sequences of span lengths with their probabilities: Poisson, the last cut, at most num_removed spans."""
    left = num_removed - sum(lengths)
    if left == 0:
        yield lengths, 1.0
        return
    if len(lengths) == num_removed - 1:
        yield (*lengths, left), 1.0
        return
    mass = [exp(-mean) * mean**k / factorial(k) for k in range(left)]
    for length, probability in [*enumerate(mass), (left, 1 - sum(mass))]:
        for sequence, share in span_lengths(num_removed, mean, (*lengths, length)):
            yield sequence, probability * share


def test_infilling_as_in_lewis_et_al():
    """Of 6 tokens round(0.5 · 6) = 3 are removed, in spans anywhere among the 3 that remain."""
    sentence = list(range(60, 66))
    expected = defaultdict(float)
    for spans, probability in span_lengths(3, 1.5):
        length = 3 + len(spans)
        for columns in combinations(range(length), len(spans)):
            rest, width, src = list(sentence), dict(zip(columns, spans, strict=True)), []
            for column in range(length):
                src += [MASK] if column in width else [rest[0]]
                del rest[: width.get(column, 1)]
            expected[tuple(src), tuple(sentence)] += probability / comb(length, len(spans))
    config = BartNoiseConfig(infilling_rate=0.5, mean_span_length=1.5, permute_sentences=False)
    assert_likely(outcomes(config, sentence), expected)
