"""Detection of translations that ran into a loop."""

from __future__ import annotations

from collections.abc import Sequence

MAX_PERIOD = 24  # tokens of the n-gram that is repeated
MIN_REPEATS = 4  # occurrences in a row
MIN_LOOP_TOKENS = 12  # of all occurrences together
# tokens of a loop that occurred before: all except those of the first occurrence
MIN_REPEATED_TOKENS = MIN_LOOP_TOKENS - MIN_LOOP_TOKENS // MIN_REPEATS


def has_loop(tokens: Sequence[int], source: Sequence[int]) -> bool:
    """Return whether an n-gram is repeated in a row: MIN_REPEATS times, and over twice as often as in the source.

    "Ha ha ha ha ha" has a correct translation with repeats; sixty times "and the" is no translation of a sentence.
    """
    if len(tokens) - len(set(tokens)) < MIN_REPEATED_TOKENS:  # fast, and the usual case
        return False
    repeats = max_repeats(tokens)
    return repeats >= MIN_REPEATS and repeats > 2 * max_repeats(source)


def max_repeats(tokens: Sequence[int]) -> int:
    """Largest number of consecutive occurrences of an n-gram, n <= MAX_PERIOD, with MIN_LOOP_TOKENS together.

    At least 1.
    """
    result = 1
    for period in range(1, min(MAX_PERIOD, len(tokens) // 2) + 1):
        same = 0
        for token, earlier in zip(tokens[period:], tokens, strict=False):
            same = same + 1 if token == earlier else 0
            if same + period >= MIN_LOOP_TOKENS:
                result = max(result, same // period + 1)
    return result
