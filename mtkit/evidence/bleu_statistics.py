"""Sufficient statistics of BLEU for each test line: corpus BLEU of any lines, its error, a form to store."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.bleu import BLEU, BLEUScore

from mtkit.evaluation.tokenizer_choice import SacrebleuTokenizer

Floats = NDArray[np.float64]
Selections = Sequence[tuple[float, NDArray[np.bool_]]]  # signs and lines [L]: a sum of sign · (BLEU of these lines)

NUM_SAMPLES = 1000  # bootstrap samples; sacreBLEU's default
_ORDER = 4  # longest n-grams of BLEU


def bleu_statistics(hyps: Sequence[str], ref: Sequence[str], *, tokenize: SacrebleuTokenizer) -> Floats:
    """Sufficient statistics of BLEU for each line, [L, 10]: 4 matches, 4 totals, lengths of hypothesis and reference.

    Their sum over lines gives the corpus BLEU (see bleu_of_statistics).
    """
    metric = BLEU(tokenize=tokenize, effective_order=True)
    rows = []
    for hyp, line in zip(hyps, ref, strict=True):
        score = metric.sentence_score(hyp, [line])
        if not isinstance(score, BLEUScore):
            raise TypeError("sacreBLEU returned another score than BLEU")
        rows.append([*score.counts, *score.totals, score.sys_len, score.ref_len])
    return np.asarray(rows, dtype=np.float64).reshape(-1, 2 * _ORDER + 2)


def bleu_of_statistics(sums: Floats) -> Floats:
    """BLEU in percent of summed statistics [..., 10] -> [...]; Papineni et al. 2002, eq. 1 to 3.

    Matches of zero are smoothed as by sacreBLEU (`smooth:exp`): the k-th zero counts as 1 / 2^k.
    """
    matches, totals = sums[..., :_ORDER], sums[..., _ORDER : 2 * _ORDER]
    is_zero = matches == 0
    smoothed = np.where(is_zero, 0.5 ** np.cumsum(is_zero, axis=-1), matches)
    log_precision = np.log(smoothed / np.maximum(totals, 1)).mean(axis=-1)
    hyp_length, ref_length = sums[..., -2], sums[..., -1]
    log_brevity = np.minimum(0.0, 1 - ref_length / np.maximum(hyp_length, 1))
    has_score = (totals > 0).all(axis=-1) & (matches.sum(axis=-1) > 0)
    return np.where(has_score, 100 * np.exp(log_brevity + log_precision), 0.0)


def bleu_by_seed(statistics: Mapping[int, Floats], counts: Floats, selections: Selections) -> Floats:
    """Signed sum of BLEU over the selections for each seed, [R, N], where line l of sample r occurs counts[r, l] times.

    Args:
        statistics: [L, 10] of each seed.
        counts: [R, L].
    """
    columns = [
        sum(sign * bleu_of_statistics(counts[:, lines] @ statistics[seed][lines]) for sign, lines in selections)
        for seed in sorted(statistics)
    ]
    return np.stack(columns, axis=-1)


def sentence_error(
    of: Mapping[int, Floats],
    against: Mapping[int, Floats],
    selections: Selections,
) -> float:
    """Standard error of the mean difference of two systems due to the test lines, by the bootstrap.

    All seeds and both systems share the lines of a sample.
    """
    lines = len(next(iter(of.values())))
    counts = np.random.default_rng(12345).multinomial(lines, np.full(lines, 1 / lines), size=NUM_SAMPLES)
    means = [bleu_by_seed(each, counts.astype(np.float64), selections).mean(axis=-1) for each in (of, against)]
    return float((means[0] - means[1]).std(ddof=1))


def pack(statistics: Floats) -> str:
    """Statistics [L, 10] as text: matches and lengths, compressed; the totals follow from the length."""
    columns = statistics[:, [*range(_ORDER), -2, -1]].astype("<u2").T  # [6, L]
    return base64.b85encode(zlib.compress(columns.tobytes(), 9)).decode()


def unpack(text: str) -> Floats:
    """Statistics [L, 10] of a packed text.

    Raises:
        ValueError: the text is damaged.
    """
    try:
        columns = np.frombuffer(zlib.decompress(base64.b85decode(text)), dtype="<u2").reshape(6, -1)
    except zlib.error as error:
        raise ValueError(f"damaged statistics: {error}") from error
    matches, lengths = columns[:_ORDER].T.astype(np.float64), columns[_ORDER:].T.astype(np.float64)
    totals = np.maximum(lengths[:, :1] - np.arange(_ORDER), 0)  # a hypothesis of n words has n - k + 1 k-grams
    return np.concatenate([matches, totals, lengths], axis=-1)
