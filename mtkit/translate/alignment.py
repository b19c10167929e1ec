"""Word alignment of a translation, from attention, and the characters that belong to those of the source."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mtkit.text.normalise import SPACE_MARK
from mtkit.text.spans import is_spaced


def words_of(tokens: Sequence[str]) -> list[int]:
    """Index of the word of each token: the first word of which it contains a character; -1 for white space only."""
    indices: list[int] = []
    word, inside = -1, False
    for token in tokens:
        index = -1
        for character in token:
            if character == SPACE_MARK or character.isspace():
                inside = False
                continue
            word += not inside
            inside = True
            index = word if index < 0 else index
        indices.append(index)
    return indices


# Choices that bring the links of words closest to alignments made by hand, of 60 pairs of the embedded valid set; the
# error rate on these is no result for other text (tools/benchmarks/alignment.py).
MIN_OF_BEST = 0.7  # attention of a target word to its source word, compared with the greatest that this one receives
MIN_UNLINKED = 0.1  # of the target word that attends most to a source word without a link


def word_links(blocks: Iterable[tuple[int, int, Any]], src: Sequence[str], tgt: Sequence[str]) -> set[tuple[int, int]]:
    """Pairs (source word, target word): each target word with the source word that it attends to most.

    The attention of a target word is the mean of its tokens', and that to a source word the sum over its tokens. Tokens
    without letters or digits, such as a full stop, do not count in a word that has others: the decoder looks at the end
    of a sentence for words that it has no better place for. Of the target words with the same source word, those that
    attend to it much less than another are not linked. A source word that is left without a link has one to the target
    word that attends to it most, if that is a considerable share; another source word gives this one up, if it keeps
    one that attends to it more: of "a yellow", "einem" attends to "yellow", as "gelben" does.

    Args:
        blocks: of the attention [T, S]: source token and target token at which it begins, and the weights over source
            tokens without the end of sentence, to which nothing is linked.
        src, tgt: all tokens as strings, with U+2581 for a space.
    """
    links: set[tuple[int, int]] = set()
    src_words, tgt_words = _counted_words(src), _counted_words(tgt)
    for first_src, first_tgt, attention in blocks:
        weights = np.asarray(attention)
        rows, columns = (
            np.array(words[first : first + size], dtype=np.int64)
            for words, first, size in zip((tgt_words, src_words), (first_tgt, first_src), weights.shape, strict=True)
        )
        weights = weights[np.ix_(rows >= 0, columns >= 0)]
        if not weights.size:
            continue
        of_tgt, row = np.unique(rows[rows >= 0], return_inverse=True)
        of_src, column = np.unique(columns[columns >= 0], return_inverse=True)
        mass = np.zeros((len(of_tgt), len(of_src)))
        np.add.at(mass, (row[:, None], column[None, :]), weights)
        mass /= np.bincount(row)[:, None]
        is_linked = (np.arange(len(of_src)) == mass.argmax(1)[:, None]) & (mass > 0)
        is_linked &= mass >= MIN_OF_BEST * np.where(is_linked, mass, 0).max(0)
        is_left = ~is_linked.any(0) & (mass.max(0) >= MIN_UNLINKED)
        place = np.arange(len(of_tgt))[:, None]
        taken = (place == mass.argmax(0)) & is_left
        is_linked &= (place == np.where(is_linked, mass, 0).argmax(0)) | ~taken.any(1)[:, None]
        is_linked |= taken
        links.update((int(of_src[s]), int(of_tgt[t])) for t, s in np.argwhere(is_linked))
    return links


def _counted_words(tokens: Sequence[str]) -> list[int]:
    """`words_of`, with -1 for a token without letters or digits in a word that has others."""
    words = words_of(tokens)
    has_letters = [any(map(str.isalnum, token)) for token in tokens]
    with_letters = {word for word, has in zip(words, has_letters, strict=True) if has}
    return [-1 if not has and word in with_letters else word for word, has in zip(words, has_letters, strict=True)]


class Replacement(NamedTuple):
    """A stretch of a translation that was replaced; `start` counts the characters before it, as they were."""

    start: int
    old: str
    new: str


def moved_pairs(
    pairs: Iterable[tuple[int, int]], hyp: str, replacements: Sequence[Replacement]
) -> tuple[tuple[int, int], ...]:
    """Word pairs of a translation after stretches were replaced: new words have the links of all that they replace.

    Args:
        pairs: (source word, target word) as they were.
        hyp: the translation with the replacements.
        replacements: in order, without overlap.
    """
    stretches, shift, before = [], 0, hyp  # (start, end) as they were, (start, end) in hyp
    for start, old, new in replacements:
        stretches.append((start, start + len(old), start + shift, start + shift + len(new)))
        shift += len(new) - len(old)
    for (_, _, start, end), replacement in zip(reversed(stretches), reversed(replacements), strict=True):
        before = before[:start] + replacement.old + before[end:]
    old_words, new_words = ([match.span() for match in re.finditer(r"\S+", text)] for text in (before, hyp))
    starts, ends = [start for start, _ in new_words], [end for _, end in new_words]

    def moved(offset: int, *, is_end: bool) -> int:
        """Place of an offset in hyp; inside of a stretch it is the beginning or the end of the new one."""
        shift = 0
        for old_start, old_end, new_start, new_end in stretches:
            if offset <= old_start:
                break
            if offset < old_end:
                return new_end if is_end else new_start
            shift = new_end - old_end
        return offset + shift

    moved_links: set[tuple[int, int]] = set()
    for src_word, tgt_word in pairs:
        start, end = old_words[tgt_word]
        first = bisect_right(ends, moved(start, is_end=False))
        last = bisect_left(starts, moved(end, is_end=True))
        moved_links.update((src_word, word) for word in range(first, last))
    return tuple(sorted(moved_links))


# Attention of the first and last token of a stretch, compared with the greatest, for one source word and for several.
# These values and the gap place most stretches exactly in the same alignments made by hand.
MIN_SHARE = 0.9
MIN_SHARE_OF_WORDS = 0.5
MAX_GAP = 1  # tokens inside a stretch that attend to something else
SIGNS_OF_SPANS = "_/@%{}<>$#=&+-:'"


def token_ends(tokens: Sequence[str], text: str) -> list[int] | None:
    """The number of characters of the text up to the end of each token; None if the text is not that of the tokens."""
    written = "".join(tokens).replace(SPACE_MARK, " ")
    ends, length = [], -int(written.startswith(" "))
    for token in tokens:
        length += len(token)
        ends.append(max(0, length))
    return ends if written.removeprefix(" ") == text.removeprefix(" ") else None


@dataclass(frozen=True)
class Aligned:
    """A source and its translation with the attention between them.

    Attributes:
        src: the source.
        hyp: the translation.
        src_tokens: the text of each token of the source, with U+2581 for a space [S].
        tgt_tokens: those of the translation [T].
        src_ends: characters of the source up to the end of each token [S].
        tgt_ends: those of the translation [T].
        attention: [T, S] of the target tokens over the source tokens, without the end of sentence.
    """

    src: str
    hyp: str
    src_tokens: Sequence[str]
    tgt_tokens: Sequence[str]
    src_ends: list[int]
    tgt_ends: list[int]
    attention: NDArray[np.float32]

    @classmethod
    def of(
        cls, src: str, src_tokens: Sequence[str], hyp: str, tgt_tokens: Sequence[str], attention: object
    ) -> Aligned | None:
        """The alignment of a hypothesis; None where tokens are no characters, or the model has no attention."""
        src_ends, tgt_ends = token_ends(src_tokens, src), token_ends(tgt_tokens, hyp)
        if attention is None or not src_ends or not tgt_ends:
            return None
        attention = np.asarray(attention)[: len(tgt_ends), : len(src_ends)]
        return cls(src, hyp, src_tokens, tgt_tokens, src_ends, tgt_ends, attention)

    def target_range(self, start: int, end: int) -> tuple[int, int] | None:
        """The characters of the translation that belong to source characters, whole words; None if none do."""
        begins = [0, *self.src_ends[:-1]]
        columns = [i for i, (b, e) in enumerate(zip(begins, self.src_ends, strict=True)) if b < end and start < e]
        rows = np.flatnonzero(np.isin(self.attention.argmax(1), columns))  # that attend to these characters most
        if not len(rows):
            return None
        runs = np.split(rows, np.flatnonzero(np.diff(rows) > 1 + MAX_GAP) + 1)
        mass = self.attention[:, columns].sum(1)
        best = max(runs, key=lambda run: float(mass[run].sum()))
        min_share = MIN_SHARE_OF_WORDS if " " in self.src[start:end].strip() else MIN_SHARE
        best = best[mass[best] >= min_share * mass[best].max()]
        first, last = (self.tgt_ends[best[0] - 1] if best[0] else 0), self.tgt_ends[best[-1]]
        while first < last and self.hyp[first].isspace():
            first += 1
        while first > 0 and _is_inside_word(self.hyp, first):
            first -= 1
        while last < len(self.hyp) and _is_inside_word(self.hyp, last):
            last += 1
        while first + 1 < last and (self.hyp[last - 1].isspace() or self.hyp[last - 1] in ".,;:!?"):
            last -= 1
        return (first, last) if first < last else None


def _is_inside_word(text: str, index: int) -> bool:
    """Return whether the characters before and at an index belong to one word or span.

    Those are letters and digits of scripts with spaces between words, and the signs of URLs, placeholders and tags.
    """
    pair = text[index - 1], text[index]
    return all(is_spaced(c) or c in SIGNS_OF_SPANS for c in pair)
