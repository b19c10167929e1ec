"""Which word of a translation comes from which word of the source."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torch import Tensor

SPACE_MARK = "\u2581"  # how sentencepiece writes a space in its pieces


def words_of(pieces: Sequence[str]) -> list[int]:
    """For each piece the number of the first word that it has a part of, -1 if it is white space only."""
    numbers: list[int] = []
    word, inside = -1, False
    for piece in pieces:
        number = -1
        for character in piece:
            if character == SPACE_MARK or character.isspace():
                inside = False
                continue
            word += not inside
            inside = True
            number = word if number < 0 else number
        numbers.append(number)
    return numbers


def links_of(attention: Tensor, src_length: int) -> list[tuple[int, int]]:
    """Pairs (source piece, target piece): each target piece with the source piece that it attends to most.

    Args:
        attention: [T, S], T target pieces over at least `src_length` source places.
        src_length: source pieces without the end of sentence, to which nothing is linked.
    """
    if src_length == 0:
        return []
    return [(place, t) for t, place in enumerate(attention[:, :src_length].argmax(1).tolist())]


def word_pairs(links: Iterable[tuple[int, int]], src: Sequence[str], tgt: Sequence[str]) -> tuple[tuple[int, int], ...]:
    """Pairs (source word, target word) in order, from pairs of pieces; `src` and `tgt` are the pieces by name."""
    src_word, tgt_word = words_of(src), words_of(tgt)
    pairs = {(src_word[s], tgt_word[t]) for s, t in links}
    return tuple(sorted((s, t) for s, t in pairs if s >= 0 and t >= 0))
