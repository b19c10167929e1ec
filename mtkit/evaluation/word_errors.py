"""Errors of words by class: alignment of a translation with its reference, without a trained aligner.

Words are aligned by minimum edit distance, in which equal words cost nothing and words with the same beginning little;
equal words that are left over are moved words, as the shifts of TER (Snover et al. 2006,
https://aclanthology.org/2006.amta-papers.25/) and the stages of METEOR, exact before stem (Banerjee and Lavie 2005,
https://aclanthology.org/W05-0909/). The classes are those of Hjerson (Popović 2011,
https://ufal.mff.cuni.cz/pbml/96/art-popovic.pdf), inflection, order, missing, extra and lexical choice, and of what the
form of the words tells: numbers, names, capitals, repetition, punctuation, words of the source.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
ERROR_CLASSES = {  # heading of each, in the order of reports
    "missing": "missing words",  # one or two words of the reference in a row
    "cut": "missing phrases",  # PHRASE words or more
    "added": "added words",
    "repeated": "repeated words",  # that the translation has already, and the reference less often
    "order": "order of words",
    "form": "endings and forms",  # another form of the same word
    "number": "numbers",  # another number, or none
    "name": "names",  # words with a capital that source and reference share
    "source": "untranslated words",  # words of the source that no reference has
    "capitals": "capitals",
    "function": "small words",  # one of the most frequent words, such as an article, instead of another one
    "word": "other words",
    "punctuation": "punctuation",
}
ONE_SIDED = ("missing", "cut", "added", "repeated", "order")  # whose words are shown alone
NONE = "∅"
GAP, CASE, STEM, OTHER, NEVER = 4, 1, 2, 6, 9  # costs; a pair that costs more than two gaps is not aligned
STEM_LENGTH = 4  # letters
MIN_FREQUENT = 0.004  # share of the running words from which a word is a small word: some 35, mostly articles and such
PHRASE = 3  # missing words in a row
MAX_CELLS = 4_000_000  # products of lengths; a longer line is not aligned
_BLOCK_CELLS = 1_000_000
_FREQUENT, _PLAIN, _NUMBER, _SIGN = range(4)


class WordError(NamedTuple):
    """One wrong word: its class of ERROR_CLASSES, and the words of reference and translation, "" for none."""

    kind: str
    ref: str
    hyp: str

    def __str__(self) -> str:
        if self.kind in ONE_SIDED or self.ref == self.hyp:
            return self.ref or self.hyp
        return f"{self.ref or NONE} → {self.hyp or NONE}"


class ErrorClassifier:
    """Classifies the errors of translations, given the words of all texts.

    Args:
        refs: words of the references.
        counts: frequencies of target words, such as those of the training text; None: those of the references.
    """

    def __init__(self, refs: Sequence[Sequence[str]], counts: Mapping[str, int] | None = None) -> None:
        self._known = Counter(word for ref in refs for word in ref)
        counts = self._known if counts is None else counts
        by_base: Counter[str] = Counter()
        for word, count in counts.items():
            by_base[word.lower()] += count * word[:1].isalpha()
        # a word that is never written in lower case, as a German noun or a name, is not a small word
        limit = max(3, MIN_FREQUENT * by_base.total())
        self._frequent = {base for base, count in by_base.items() if count >= limit and counts.get(base)}
        self.kind = cache(self._kind)
        self._ids: dict[str, int] = {}
        self._bases: list[tuple[int, int, int]] = []  # by id: without case, by stem, kind
        self._base_ids: dict[str, int] = {}

    def errors(
        self, hyps: Sequence[Sequence[str]], refs: Sequence[Sequence[str]], src: Sequence[Sequence[str]] | None = None
    ) -> list[list[WordError]]:
        """The errors of each line.

        Args:
            hyps, refs: words of translations and references, line by line.
            src: words of the source; None: names and untranslated words are not told from other words.
        """
        errors: list[list[WordError]] = [[] for _ in hyps]
        for line, links in self._links(hyps, refs):
            source = frozenset() if src is None else frozenset(src[line])
            errors[line] = [*self._classify(hyps[line], refs[line], links, source)]
        return errors

    def _kind(self, word: str) -> int:
        """Frequent word, other word, number or sign."""
        if any(map(str.isdigit, word)):
            return _NUMBER
        if not any(unicodedata.category(each)[0] in "LM" for each in word):
            return _SIGN
        return _FREQUENT if word.lower() in self._frequent else _PLAIN

    def is_name(self, word: str, source: Set[str]) -> bool:
        """Return whether a word of a reference is a name: it has a capital and stands in the source too."""
        return word in source and word[:1].isupper() and word.lower() not in self._known

    def _encode(self, words: Sequence[str]) -> list[int]:
        """Ids of words, with what alignment compares of new ones."""
        for word in words:
            if word not in self._ids:
                self._ids[word] = len(self._ids)
                base = word.lower()
                stem = _letters(base)[:STEM_LENGTH]
                key = base if len(stem) < STEM_LENGTH else f"{stem}-"
                one, other = (self._base_ids.setdefault(each, len(self._base_ids)) for each in (base, key))
                self._bases.append((one, other, self.kind(word)))
        return [self._ids[word] for word in words]

    def _links(self, hyps: Sequence[Sequence[str]], refs: Sequence[Sequence[str]]) -> Iterator[tuple[int, list[int]]]:
        """Each line that differs from its reference, with the word of the translation at each one of the reference."""
        lines = [
            number
            for number, (hyp, ref) in enumerate(zip(hyps, refs, strict=True))
            if hyp != ref and len(hyp) * len(ref) <= MAX_CELLS
        ]
        ids = {line: (self._encode(hyps[line]), self._encode(refs[line])) for line in lines}
        table = np.array([*self._bases, (-1, -1, -1)])  # id -1: padding
        lines.sort(key=lambda line: max(len(hyps[line]), len(refs[line])))
        while lines:
            side = max(len(hyps[lines[-1]]), len(refs[lines[-1]])) + 1
            block = lines[-max(1, _BLOCK_CELLS // side**2) :]
            del lines[-len(block) :]
            yield from zip(block, _align([ids[line] for line in block], table), strict=True)

    def _classify(
        self, hyp: Sequence[str], ref: Sequence[str], links: Sequence[int], source: Set[str]
    ) -> Iterator[WordError]:
        linked = {j: i for j, i in enumerate(links) if i >= 0}
        replaced = {j: i for j, i in linked.items() if hyp[i].lower() != ref[j].lower()}
        equal = ((ref[j], hyp[i]) for j, i in linked.items() if j not in replaced)
        yield from (WordError("capitals", one, other) for one, other in equal if one != other)
        missing = {j for j, i in enumerate(links) if i < 0}
        added = set(range(len(hyp))) - set(linked.values())
        # equal words that are left over have moved; each leaves the word that it was aligned with alone
        free = _by_key(added | {*replaced.values()}, [word.lower() for word in hyp])
        for j in sorted(missing | {*replaced}):
            if not (places := free.get(ref[j].lower())):
                continue
            i = min(places, key=lambda each: (abs(each - j), each))
            places.remove(i)
            yield self._named("order", ref[j], hyp[i], source)
            added |= {replaced.pop(j)} if j in replaced else set()
            missing |= {other for other, each in replaced.items() if each == i}
            replaced = {other: each for other, each in replaced.items() if each != i}
            missing.discard(j)
            added.discard(i)
        # so may words of one stem, which the alignment has not linked; they have their first two letters in common
        free = _by_key(added, [_letters(word)[:2] for word in hyp]) if missing else {}
        for j in sorted(missing):
            places = free.get(_letters(ref[j])[:2], [])
            forms = [i for i in places if self.kind(ref[j]) != _SIGN and are_forms(hyp[i], ref[j])]
            if forms:
                replaced[j] = min(forms, key=lambda each: (abs(each - j), each))
                places.remove(replaced[j])
                missing.discard(j)
                added.discard(replaced[j])
        yield from (self._replaced(ref[j], hyp[i], source) for j, i in replaced.items())
        for j in sorted(missing):
            first = last = j
            while first - 1 in missing:
                first -= 1
            while last + 1 in missing:
                last += 1
            run = [each for each in range(first, last + 1) if self.kind(ref[each]) != _SIGN]
            yield self._named("cut" if len(run) >= PHRASE else "missing", ref[j], "", source)
        # a small word is repeated where it follows itself, or another repeated word; other words anywhere
        before, so_far = (Counter(map(str.lower, words if added else ())) for words in (ref, hyp))
        repeated: set[int] = set()
        for i in sorted(added):
            word = hyp[i].lower()
            follows = i > 0 and (hyp[i - 1].lower() == word or i - 1 in repeated)
            if 0 < before[word] < so_far[word] and (follows or self.kind(word) == _PLAIN):
                repeated.add(i)
            yield self._named("repeated" if i in repeated else "added", "", hyp[i], source)

    def _replaced(self, ref: str, hyp: str, source: Set[str]) -> WordError:
        """The error of a word for another one."""
        if self.kind(ref) == self.kind(hyp) == _FREQUENT:
            return WordError("function", ref, hyp)
        return self._named("form" if are_forms(ref, hyp) else "word", ref, hyp, source)

    def _named(self, kind: str, ref: str, hyp: str, source: Set[str]) -> WordError:
        """An error whose class the form of the words may tell better."""
        kinds = {self.kind(word) for word in (ref, hyp) if word}
        is_moved = kind in ("order", "repeated", "cut")
        if _NUMBER in kinds and not is_moved:
            return WordError("number", ref, hyp)
        if kinds == {_SIGN}:
            return WordError("punctuation", ref, hyp)
        if ref and kind not in ("form", "cut") and self.is_name(ref, source):
            return WordError("name", ref, hyp)
        if hyp in source and hyp not in self._known and any(map(str.isalpha, hyp)):
            return WordError("source", ref, hyp)
        return WordError(kind, ref, hyp)


def _by_key(places: Iterable[int], keys: Sequence[str]) -> dict[str, list[int]]:
    """Places of words by a key of each word."""
    by_key: dict[str, list[int]] = {}
    for place in sorted(places):
        by_key.setdefault(keys[place], []).append(place)
    return by_key


@lru_cache(maxsize=1_000_000)
def _letters(word: str) -> str:
    """A word in lower case without the marks of its letters."""
    text = unicodedata.normalize("NFD", word.lower())
    return "".join(each for each in text if not unicodedata.combining(each))


@lru_cache(maxsize=1_000_000)
def are_forms(one: str, other: str) -> bool:
    """Return whether two words have the same beginning: half of the longer one and three letters, or all but two."""
    short, long = sorted((_letters(one), _letters(other)), key=len)
    shared = next((n for n, (a, b) in enumerate(zip(short, long, strict=False)) if a != b), len(short))
    is_cut_short = shared == len(short) >= 2 and len(long) - len(short) <= 2
    return is_cut_short or (shared >= 3 and 2 * shared >= len(long))


def _align(pairs: Sequence[tuple[list[int], list[int]]], table: Ints) -> list[list[int]]:
    """Alignment of B pairs of minimum cost: for each word of a reference the index in its translation, -1 for none.

    Args:
        pairs: ids of the words of translation and reference.
        table: [V + 1, 3] what is compared of each word; the last row is that of padding.
    """
    num_hyp, num_ref = (np.array([len(pair[side]) for pair in pairs]) for side in (0, 1))
    hyps, refs = (np.full((len(pairs), max(1, lengths.max())), len(table) - 1) for lengths in (num_hyp, num_ref))
    for number, (hyp, ref) in enumerate(pairs):
        hyps[number, : len(hyp)], refs[number, : len(ref)] = hyp, ref
    one, other = table[hyps][:, :, None], table[refs][:, None]  # [B, S, 1, 3], [B, 1, T, 3]
    cost = np.where(one[..., 2] == other[..., 2], OTHER, NEVER).astype(np.int32)  # [B, S, T]
    cost[one[..., 1] == other[..., 1]] = STEM
    cost[one[..., 0] == other[..., 0]] = CASE
    cost[hyps[:, :, None] == refs[:, None]] = 0
    gaps = GAP * np.arange(refs.shape[1] + 1)
    total = np.empty((len(pairs), hyps.shape[1] + 1, refs.shape[1] + 1), np.int32)  # of the first words of both
    total[:, 0] = gaps
    for i in range(hyps.shape[1]):
        best = total[:, i] + GAP
        np.minimum(best[:, 1:], total[:, i, :-1] + cost[:, i], out=best[:, 1:])
        total[:, i + 1] = np.minimum.accumulate(best - gaps, axis=1) + gaps  # words of the reference left out
    links = np.full(refs.shape, -1)
    at_hyp, at_ref, rows = num_hyp.copy(), num_ref.copy(), np.arange(len(pairs))
    while len(rows):  # backwards from the ends of all pairs at once
        row, column = at_hyp[rows], at_ref[rows]
        here, paired = total[rows, row, column], total[rows, row - 1, column - 1] + cost[rows, row - 1, column - 1]
        is_pair = (row > 0) & (column > 0) & (here == paired)
        links[rows[is_pair], column[is_pair] - 1] = row[is_pair] - 1
        is_added = ~is_pair & (row > 0) & (here == total[rows, row - 1, column] + GAP)
        at_hyp[rows] -= is_pair | is_added
        at_ref[rows] -= ~is_added
        rows = rows[(at_hyp[rows] > 0) | (at_ref[rows] > 0)]
    return [link[:length] for link, length in zip(links.tolist(), num_ref.tolist(), strict=True)]
