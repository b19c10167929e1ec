"""Text with inline marks: the tags of a document inside the text that they mark, apart from its characters.

`Hello <b>world</b>` is the text `Hello world` with an opening mark at 6 and a closing mark at 11, both named `1`. A
document keeps what is written for each name, so that marks can be moved without knowing its format.
"""

from __future__ import annotations

import itertools
import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

_WORD = re.compile(r"\S+")
_STOPS = ".,;:!?\u2026\u3001\u3002\uff01\uff0c\uff1a\uff1b\uff1f"  # that end sentences and their parts
MAX_INSIDE = 200  # words of a pair whose links are compared; those in the middle of a longer one are not
MAX_WORD = 40  # characters; a longer one is a sentence of a script without spaces, in which a place is a guess
MAX_SAME = 1000  # characters of a word that is compared with its translation


@dataclass(frozen=True)
class Mark:
    """A mark between two characters of a text.

    Attributes:
        offset: number of characters of the text before the mark.
        role: open and close are the two marks of a pair; empty is a mark without a partner, such as a line break.
        name: identifies the pair or the empty mark; unique within a text.
    """

    offset: int
    role: Literal["open", "close", "empty"]
    name: str


@dataclass(frozen=True)
class Marked:
    """A text and its marks, in the order in which they are written; pairs are nested.

    Raises:
        ValueError: a mark lies outside the text or before the one that is written before it, a name occurs twice,
            or pairs cross or have one mark only.
    """

    text: str
    marks: tuple[Mark, ...] = ()

    def __post_init__(self) -> None:
        names: set[str] = set()
        stack: list[str] = []
        last = 0
        for mark in self.marks:
            if not last <= mark.offset <= len(self.text):
                raise ValueError(f"mark {mark.name!r} at {mark.offset}: not in {last} to {len(self.text)}")
            last = mark.offset
            if mark.role == "close":
                if not stack or stack.pop() != mark.name:
                    raise ValueError(
                        f"mark {mark.name!r} at {mark.offset} closes another pair than the last one opened"
                    )
                continue
            if mark.name in names:
                raise ValueError(f"mark {mark.name!r} at {mark.offset}: the name occurs twice")
            names.add(mark.name)
            if mark.role == "open":
                stack.append(mark.name)
        if stack:
            raise ValueError(f"mark {stack[-1]!r} is never closed")

    def split(self, ends: Sequence[int]) -> list[Marked]:
        """The parts of the text that end at these offsets, with their marks.

        The two marks of a pair that is cut become empty marks of the same name. A mark at a boundary belongs to the
        part before it if it closes a pair, otherwise to the part after it.

        Args:
            ends: increasing offsets; the last one is the length of the text.
        """
        parts_of: list[int] = []
        for mark in self.marks:
            after = bisect_left(ends, mark.offset) if mark.role == "close" else bisect_right(ends, mark.offset)
            parts_of.append(max(min(after, len(ends) - 1), parts_of[-1] if parts_of else 0))
        marks: list[list[Mark]] = [[] for _ in ends]
        part_of_name: dict[str, int] = {}
        cut = {
            m.name
            for m, part in zip(self.marks, parts_of, strict=True)
            if part_of_name.setdefault(m.name, part) != part
        }
        for mark, part in zip(self.marks, parts_of, strict=True):
            offset = mark.offset - (ends[part - 1] if part else 0)
            marks[part].append(Mark(offset, "empty" if mark.name in cut else mark.role, mark.name))
        starts = [0, *ends[:-1]]
        return [Marked(self.text[s:e], tuple(m)) for s, e, m in zip(starts, ends, marks, strict=True)]


def join_marked(parts: Sequence[Marked]) -> Marked:
    """Join parts of a text again: the inverse of `Marked.split`, also if the texts were replaced.

    Raises:
        ValueError: the pairs that were cut cross in the joined text.
    """
    count = Counter(mark.name for part in parts for mark in part.marks)
    opened: set[str] = set()
    marks, offset = [], 0
    for part in parts:
        for mark in part.marks:
            role = mark.role
            if role == "empty" and count[mark.name] == 2:  # of a pair that was cut
                role = "close" if mark.name in opened else "open"
                opened.add(mark.name)
            marks.append(Mark(offset + mark.offset, role, mark.name))
        offset += len(part.text)
    return Marked("".join(part.text for part in parts), tuple(marks))


@dataclass
class _Node:
    """A pair of marks, or an empty mark, with the marks inside it; characters of the source, then of the target.

    Attributes:
        least: units of the target that it needs, so that no pair with words inside is left without one.
    """

    name: str
    is_pair: bool
    start: int
    end: int = 0
    least: int = 0
    children: list[_Node] = field(default_factory=list)


def place_marks(
    source: Marked, target: str, links: Sequence[tuple[int, int]], *, in_order: bool = False
) -> tuple[Marked, bool]:
    """Place the marks of a source in its translation.

    A pair surrounds the words that align with those inside it, of which it takes the stretch with most of them and
    fewest of others. An empty mark stands behind the word that aligns with the one that it ends, otherwise before the
    word that aligns with the next one. Inside a word that is the same in the translation, marks keep their places.
    Marks around the whole source stay around the translation. A mark without aligned words is placed in proportion to
    the length of the text, at the nearest word: a guess. A pair with a word inside has one in the translation, too; of
    several pairs that want the same word, the others have one beside it.

    Args:
        links: word alignment, pairs of indices (source word, target word); words are separated by white space.
        in_order: the marks stay in their order.

    Returns:
        The translation with every mark of the source, nested; and whether all places are certain: found by alignment,
        without words of one pair between those of another.
    """
    roots: list[_Node] = []
    opened: list[_Node] = []
    nodes: list[_Node] = []
    letters = [0, *itertools.accumulate(map(str.isalnum, source.text))]
    for mark in source.marks:
        if mark.role == "close":
            node = opened.pop()
            node.end = mark.offset
            node.least = max(letters[node.end] > letters[node.start], sum(child.least for child in node.children))
            continue
        node = _Node(mark.name, mark.role == "open", mark.offset, mark.offset)
        nodes.append(node)
        (opened[-1].children if opened else roots).append(node)
        if node.is_pair:
            opened.append(node)
    # Pairs move to the target from the outside in. Thousands of them may be nested, so that nothing recurses.
    placement = _Placement(source.text, target, links, in_order=in_order)
    for node in nodes:
        node.start, node.end = placement.find_range(node)
    if not placement.divide(nodes, sum(root.least for root in roots)):
        for node in nodes:
            node.least = 0
    placement.arrange(roots, 0, len(target))
    for node in nodes:  # parents come before their children
        placement.arrange(node.children, node.start, node.end)
    marks: list[Mark] = []
    unwritten: list[_Node | Mark] = [*reversed(roots)]
    while unwritten:
        item = unwritten.pop()
        if isinstance(item, Mark):
            marks.append(item)
            continue
        marks.append(Mark(item.start, "open" if item.is_pair else "empty", item.name))
        if item.is_pair:
            unwritten.append(Mark(item.end, "close", item.name))
        unwritten += item.children[::-1]
    return Marked(target, tuple(marks)), placement.is_certain


class _Placement:
    """Places of marks in one translation."""

    def __init__(self, source: str, target: str, links: Sequence[tuple[int, int]], *, in_order: bool) -> None:
        self.source, self.target, self.in_order = source, target, in_order
        self.src_words = [match.span() for match in _WORD.finditer(source)]
        self.tgt_words = [match.span() for match in _WORD.finditer(target)]
        self.src_starts, self.src_ends = ([word[side] for word in self.src_words] for side in (0, 1))
        self.targets = defaultdict[int, list[int]](list)  # of each source word
        for s, t in links:
            if s < len(self.src_words) and t < len(self.tgt_words):
                self.targets[s].append(t)
        self.linked = {t for targets in self.targets.values() for t in targets}
        self.unlinked = [t for t in range(len(self.tgt_words)) if t not in self.linked]
        self.ends = len(target) - len(target.lstrip()), len(target.rstrip())
        self.is_certain = True

    def divide(self, nodes: list[_Node], least: int) -> bool:
        """Divide the target into units: words, and what the wanted ranges cut off of them; letters if these are few.

        Args:
            nodes: with their wanted ranges.
            least: number of units that are needed.

        Returns:
            Whether there are as many units.
        """
        cuts = sorted({each for node in nodes for each in (node.start, node.end)})
        units: list[tuple[int, int]] = []
        for start, end in self.tgt_words:
            inside = cuts[bisect_right(cuts, start) : bisect_left(cuts, end)]
            units += itertools.pairwise([start, *inside, end])
        units = [unit for unit in units if any(map(str.isalnum, self.target[slice(*unit)]))]
        if len(units) < least:
            units = [(i, i + 1) for i, char in enumerate(self.target) if char.isalnum()]
        self.unit_starts, self.unit_ends = ([unit[side] for unit in units] for side in (0, 1))
        return len(units) >= least

    def arrange(self, nodes: list[_Node], low: int, high: int) -> None:
        """Sort marks by the ranges that they want, and fit these between two characters of the target.

        Each leaves to those behind it the units that they need.
        """
        if not self.in_order:
            nodes.sort(key=lambda node: (node.start, node.end))
        rest = sum(node.least for node in nodes)
        available = bisect_right(self.unit_ends, high)
        for node in nodes:
            rest -= node.least
            wanted = node.start, node.end
            start, end = min(max(node.start, low), high), min(max(node.end, low), high)
            if node.least or rest:
                last = available - rest  # the unit before which it ends
                first = bisect_left(self.unit_starts, start)
                if first > last - node.least:
                    first = last - node.least
                    start = self.unit_starts[first]
                    end = self.unit_ends[last - 1] if node.least else start
                if (beyond := bisect_right(self.unit_ends, end)) > last:
                    end = self.unit_starts[last] if last == first else self.unit_ends[last - 1]
                elif beyond < first + node.least:
                    end = self.unit_ends[first + node.least - 1]
                if start > node.start and first < available:  # not with the space behind the mark before it
                    start = min(self.unit_starts[first], end)
            node.start, node.end = start, max(start, end)
            self.is_certain &= wanted == (node.start, node.end)
            low = node.end

    def find_range(self, node: _Node) -> tuple[int, int]:
        """The characters of the target that a mark of the source wants."""
        inside = range(bisect_right(self.src_ends, node.start), bisect_left(self.src_starts, node.end))
        if (same := self._inside_same_word(node, inside.start)) is not None:
            return same
        before = bisect_left(self.src_starts, node.start) == 0
        after = bisect_right(self.src_ends, node.end) == len(self.src_ends)
        is_outside = after and node.end > (self.src_ends or [0])[-1]  # behind the white space at the end
        ends = self.ends[0], len(self.target) if is_outside else self.ends[1]
        if not node.is_pair or node.start == node.end:
            leading = ends[0] if node.end >= (self.src_starts or [0])[0] else 0  # 0: before the white space
            place = leading if before else ends[1] if after else self._beside_word(node.start)
            return place, place
        if before and after:
            return ends
        self.is_certain &= len(inside) <= MAX_INSIDE
        looked_at = inside if len(inside) <= MAX_INSIDE else [*inside[: MAX_INSIDE // 2], *inside[-MAX_INSIDE // 2 :]]
        words = {t for s in looked_at for t in self.targets[s]}
        if not words:
            return self._guess_range(node, len(inside))
        first, last = self._stretch(words, is_long=len(inside) > 1)
        self.is_certain &= all(len(self.target[slice(*self.tgt_words[t])]) < MAX_WORD for t in (first, last))
        outer = self.src_words[inside[0]][0], self.src_words[inside[-1]][1]
        place, end = self.tgt_words[first][0], self.tgt_words[last][1]
        text = self.source[node.start : node.end].strip()
        if not any(map(str.isalnum, text)) and any(map(str.isalnum, self.target[place:end])):
            place = self.target.find(text, place, end)  # signs do not surround the word that they touch
            return (end, end) if place < 0 else (place, place + len(text))
        opening, closing = self._signs(outer[0], node.start), self._signs(node.end, outer[1])
        is_same = [self._is_same(inside[0], first), self._is_same(inside[-1], last)]
        self.is_certain &= (is_same[0] or node.start - outer[0] == len(opening)) and (
            is_same[1] or outer[1] - node.end == len(closing)
        )
        if is_same[0] or self.target.startswith(opening, place):
            place += node.start - outer[0] if is_same[0] else len(opening)
        if is_same[1] or (closing and self.target.endswith(closing, place, end)):
            end -= outer[1] - node.end if is_same[1] else len(closing)
        elif self.source[node.end - 1].isalnum():  # a stop that follows only in the translation
            stops = _STOPS if end == self.ends[1] else _STOPS.replace(".", "")
            end = place + len(self.target[place:end].rstrip(stops)) or end
        return place, end

    def _inside_same_word(self, node: _Node, word: int) -> tuple[int, int] | None:
        """The same characters of a target word that equals the source word around a mark."""
        start, end = self.src_words[word] if word < len(self.src_words) else (0, -1)
        if not start <= node.start <= node.end <= end or end - start > MAX_SAME:
            return None
        text, candidates = self.source[start:end].lower(), self.targets[word]
        letters = [any(map(str.isalnum, each)) for each in (text[: node.start - start], text[node.end - start :])]
        is_inside = any(letters) if node.start < node.end else all(letters)
        if is_inside and len(text) < MAX_WORD and not any(self._lower(t) == text for t in candidates):
            candidates = self._by_text.get(text, [])  # not linked, but there
        if len(candidates) != 1 or self._lower(candidates[0]) != text:
            return None
        place = self.tgt_words[candidates[0]][0] + node.start - start
        return place, place + node.end - node.start

    def _is_same(self, src_word: int, word: int) -> bool:
        start, end = self.src_words[src_word]
        return end - start <= MAX_SAME and self.source[start:end].lower() == self._lower(word)

    def _lower(self, word: int) -> str:
        return self.target[slice(*self.tgt_words[word])].lower()

    @cached_property
    def _by_text(self) -> dict[str, list[int]]:
        words: dict[str, list[int]] = {}
        for t in range(len(self.tgt_words)):
            words.setdefault(self._lower(t), []).append(t)
        return words

    def _stretch(self, words: Set[int], *, is_long: bool) -> tuple[int, int]:
        """First and last of neighbouring target words, with most of a pair's and fewest of others.

        That is the maximum subarray (Bentley 1984), in which a word of the pair is 1, of another -1, and one without
        links 0. Of equal ones it is the longest for a pair that is long, otherwise the first.
        """
        if max(words) - min(words) >= 2 * MAX_INSIDE:
            self.is_certain = False
            return min(words), max(words)
        best, first, last, total, start = 0, 0, 0, 0, 0
        for t in range(min(words), max(words) + 1):
            if total < (not is_long) or start not in words:
                total, start = 0, t
            total += 1 if t in words else -(t in self.linked)
            if total > best or (is_long and total == best and t in words and t - start > last - first):
                best, first, last = total, start, t
        others = self.linked.intersection(range(first, last)) - words
        self.is_certain &= not others and all(first <= t <= last for t in words)
        return first, last

    def _beside_word(self, offset: int) -> int:
        """Behind the target of the word that a mark touches if no letter of it follows, else before the next one's."""
        following = bisect_right(self.src_ends, offset)
        start, end = self.src_words[following]
        closing = self._signs(offset, end) if start < offset else ""
        touched = following if closing else following - 1
        is_behind = bool(closing) or self.src_ends[touched] == offset < start
        if is_behind and (words := self.targets[touched]):
            place = self.tgt_words[max(words)][1]
        elif not closing and (words := self.targets[following]):
            place = self.tgt_words[min(words)][0]
            place = len(self.target[:place].rstrip()) if is_behind else place
        else:
            place = self._guess(offset, is_end=is_behind)
        if is_behind:
            return place - len(closing) * self.target.endswith(closing, 0, place)
        signs = self._signs(start, offset)
        return place + len(signs) * self.target.startswith(signs, place)

    def _signs(self, start: int, end: int) -> str:
        """A part of a word, such as a bracket or full stop, if it stands outside a mark in a translation too."""
        text = self.source[start : min(end, start + MAX_WORD)]
        return text if end - start < MAX_WORD and not any(map(str.isalnum, text)) else ""

    def _guess_range(self, node: _Node, num_words: int) -> tuple[int, int]:
        """The characters for a pair without aligned words; one word takes the nearest one without a link."""
        start = self._guess(node.start)
        if num_words > 1 or not self.unlinked:
            return start, max(start, self._guess(node.end, is_end=True))
        index = bisect_left(self.unlinked, start, key=lambda t: self.tgt_words[t][0])
        nearest = self.unlinked[max(0, index - 1) : index + 1]
        return self.tgt_words[min(nearest, key=lambda t: abs(self.tgt_words[t][0] - start))]

    def _guess(self, offset: int, *, is_end: bool = False) -> int:
        self.is_certain = False
        wanted = offset * len(self.target) / max(1, len(self.source))
        index = bisect_left(self.tgt_words, wanted, key=lambda word: word[is_end])
        places = [0, *(word[is_end] for word in self.tgt_words[max(0, index - 1) : index + 1])]
        return min(places, key=lambda place: abs(place - wanted))
