"""Noise against every outcome that it can have, enumerated from the papers' words with their probabilities."""

from collections import Counter, defaultdict
from itertools import combinations, pairwise, product
from math import comb, exp, factorial, sqrt

import numpy as np

from mtkit.corpus.noise.bart import BartNoiseConfig
from mtkit.corpus.noise.mlm import MaskNoiseConfig
from mtkit.corpus.noise.noise import NoisePieces
from mtkit.corpus.noise.row_rng import Draws
from mtkit.corpus.noise.span_corruption import SpanNoiseConfig
from mtkit.corpus.order.ragged import Ragged

COUNT = 40_000
MASK, SPANS, TEXT = 4, list(range(10, 42)), [50, 51, 52]
PIECES = NoisePieces(MASK, np.array(SPANS), np.array(TEXT), np.zeros(99, dtype=bool), np.ones(99, dtype=bool))


def outcomes(config, sentence):
    """How often each (source, target) comes out of so many sentences."""
    draws = Draws.of(7, np.arange(COUNT), np.zeros(COUNT, dtype=np.int64))
    found = config.build(PIECES)(Ragged.of([sentence] * COUNT), draws)
    return Counter((tuple(found.src[n].tolist()), tuple(found.tgt[n].tolist())) for n in range(COUNT))


def assert_likely(counted, expected):
    """Each outcome within five standard deviations of its probability; none that cannot be."""
    assert abs(sum(expected.values()) - 1) < 1e-9
    assert counted.keys() <= expected.keys()
    for outcome, probability in expected.items():
        bound = 5 * sqrt(COUNT * probability * (1 - probability)) + 1
        assert abs(counted[outcome] - COUNT * probability) <= bound, (outcome, probability, counted[outcome])


def cuts(total, parts):
    """All ways of cutting a row of `total` into non-empty parts, by their lengths."""
    for places in combinations(range(1, total), parts - 1):
        edges = (0, *places, total)
        yield [b - a for a, b in pairwise(edges)]


def test_spans_as_raffel_et_al_describe():
    """Of 9 pieces round(0.4 · 9) = 4 are removed in round(4 / 2) = 2 spans, after a kept part each."""
    sentence = list(range(60, 69))
    ways = list(product(cuts(5, 2), cuts(4, 2)))
    expected = defaultdict(float)
    for kept, removed in ways:
        rest, src, tgt = list(sentence), [], []
        for number in range(2):
            src += [rest.pop(0) for _ in range(kept[number])]
            src.append(SPANS[number])
            tgt.append(SPANS[number])
            tgt += [rest.pop(0) for _ in range(removed[number])]
        expected[tuple(src), (*tgt, SPANS[2])] += 1 / len(ways)
    assert_likely(outcomes(SpanNoiseConfig(density=0.4, mean_span=2.0), sentence), expected)


def test_masks_as_devlin_et_al_describe():
    """Of 6 pieces round(0.3 · 6) = 2 are chosen; each is masked, another of 3, or itself."""
    sentence = [60, 61, 50, 62, 63, 64]
    expected = defaultdict(float)
    for places in combinations(range(6), 2):
        fates = [(0.7, MASK), (0.1, None), *((0.2 / 3, other) for other in TEXT)]
        for chosen in product(fates, repeat=2):
            src, probability = list(sentence), 1 / comb(6, 2)
            for place, (share, piece) in zip(places, chosen, strict=True):
                probability *= share
                src[place] = sentence[place] if piece is None else piece
            expected[tuple(src), tuple(sentence)] += probability
    assert_likely(outcomes(MaskNoiseConfig(rate=0.3, masked=0.7, random=0.2), sentence), expected)


def lengths_of_gaps(vanish, mean, drawn=()):
    """All series of gap lengths with their probabilities: Poisson, the last cut to fit, at most `vanish` of them."""
    left = vanish - sum(drawn)
    if left == 0:
        yield drawn, 1.0
        return
    if len(drawn) == vanish - 1:
        yield (*drawn, left), 1.0
        return
    mass = [exp(-mean) * mean**k / factorial(k) for k in range(left)]
    for length, probability in [*enumerate(mass), (left, 1 - sum(mass))]:
        for series, share in lengths_of_gaps(vanish, mean, (*drawn, length)):
            yield series, probability * share


def test_infilling_as_lewis_et_al_describe():
    """Of 6 pieces round(0.5 · 6) = 3 vanish, in gaps that stand anywhere among the 3 that stay."""
    sentence = list(range(60, 66))
    expected = defaultdict(float)
    for gaps, probability in lengths_of_gaps(3, 1.5):
        things = 3 + len(gaps)
        for places in combinations(range(things), len(gaps)):
            rest, width, src = list(sentence), dict(zip(places, gaps, strict=True)), []
            for thing in range(things):
                src += [MASK] if thing in width else [rest[0]]
                del rest[: width.get(thing, 1)]
            expected[tuple(src), tuple(sentence)] += probability / comb(things, len(gaps))
    config = BartNoiseConfig(infill=0.5, mean_span=1.5, permute_sentences=False)
    assert_likely(outcomes(config, sentence), expected)
