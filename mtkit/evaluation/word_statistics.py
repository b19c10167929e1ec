"""Statistics of the words of translations: repetition within lines, a sign of degenerate output, and rare words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

MAX_COUNT = 5  # occurrences of a rare word in the training text


def repetition_rate(lines: Iterable[str]) -> float:
    """Percentage of word bigrams that occurred earlier in the same line; 0 for a text without bigrams.

    1 - distinct bigrams / bigrams, as seq-rep-2 of Welleck et al. 2020 (https://arxiv.org/abs/1908.04319, sec. 6.1),
    summed over all lines. A good translation of a caption repeats few word bigrams.
    """
    distinct = total = 0
    for line in lines:
        bigrams = list(pairwise(line.split()))
        distinct, total = distinct + len(set(bigrams)), total + len(bigrams)
    return 100 * (1 - distinct / total) if total else 0.0


def word_counts(lines: Iterable[str]) -> Counter[str]:
    """Occurrences of each word; words are those of BLEU's tokenizer 13a, in their own case."""
    split = Tokenizer13a()  # type: ignore[no-untyped-call]
    return Counter(word for line in lines for word in split(line).split())


def rare_word_f1(
    hyps: Sequence[str], refs: Sequence[str], training: Counter[str], *, max_count: int = MAX_COUNT
) -> float:
    """F1 of rare words, in percent: words of the reference that occur at most `max_count` times in `training`.

    Sennrich et al. 2016, table 2 (https://arxiv.org/abs/1508.07909): precision and recall of single words, each counted
    at most as often as in the other line. 100 for texts without rare words.

    Args:
        hyps, refs: translations and references, line by line.
        training: counts of the words of the target side, from `word_counts`; words that are missing occur 0 times.
    """
    matched = proposed = wanted = 0
    for hyp, ref in zip(hyps, refs, strict=True):
        found, true = (
            Counter({word: count for word, count in word_counts([line]).items() if training[word] <= max_count})
            for line in (hyp, ref)
        )
        matched += (found & true).total()
        proposed, wanted = proposed + found.total(), wanted + true.total()
    return 200 * matched / (proposed + wanted) if proposed + wanted else 100.0
