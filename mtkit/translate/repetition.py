"""Finding translations that ran into a loop."""

from __future__ import annotations

from collections.abc import Sequence

LONGEST_PERIOD = 24  # pieces of what is repeated
LEAST_TURNS = 4  # times in a row
LEAST_PIECES = 12  # in all turns together
# pieces of a loop that were there before: all but those of its first turn
LEAST_AGAIN = LEAST_PIECES - LEAST_PIECES // LEAST_TURNS


def has_loop(tokens: Sequence[int], source: Sequence[int]) -> bool:
    """Whether some stretch comes again and again in the translation, and nothing as often in the source.

    "Ha ha ha ha ha" may be translated as it stands; a list of sixty times "and the" for a sentence may not.
    """
    if len(tokens) - len(set(tokens)) < LEAST_AGAIN:  # nearly always, and quickly found
        return False
    turns = most_turns(tokens)
    return turns >= LEAST_TURNS and turns > 2 * most_turns(source)


def most_turns(tokens: Sequence[int]) -> int:
    """How often in a row a stretch of at most LONGEST_PERIOD comes, of those that fill LEAST_PIECES; at least 1."""
    most = 1
    for period in range(1, min(LONGEST_PERIOD, len(tokens) // 2) + 1):
        same = 0
        for here, before in zip(tokens[period:], tokens, strict=False):
            same = same + 1 if here == before else 0
            if same + period >= LEAST_PIECES:
                most = max(most, same // period + 1)
    return most
