"""Text with inline marks: the tags of a document inside the text that they mark, apart from its characters.

`Hello <b>world</b>` is the text `Hello world` with an opening mark at 6 and a closing mark at 11, both named `1`. A
document keeps what is written for each name, so that marks can be moved without knowing its format.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

_WORD = re.compile(r"\S+")
MAX_INSIDE = 200  # words of a pair whose links are compared; those in the middle of a longer one are not
MAX_WORD = 40  # characters; a longer one is a sentence of a script without spaces, in which a place is a guess


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
    """A pair of marks, or an empty mark, with the marks inside it; characters of the source, then of the target."""

    name: str
    is_pair: bool
    start: int
    end: int = 0
    children: list[_Node] = field(default_factory=list)


def place_marks(source: Marked, target: str, links: Sequence[tuple[int, int]]) -> tuple[Marked, bool]:
    """Place the marks of a source in its translation.

    A pair surrounds the words that align with those inside it. An empty mark stands behind the word that aligns with
    the one that it ends, otherwise before the word that aligns with the next one. Inside a word that is the same in the
    translation, marks keep their places. Marks around the whole source stay around the translation. A mark without
    aligned words is placed in proportion to the length of the text, at the nearest word: a guess.

    Args:
        links: word alignment, pairs of indices (source word, target word); words are separated by white space.

    Returns:
        The translation with every mark of the source, nested; and whether all places are certain: found by alignment,
        without words of one pair between those of another.
    """
    roots: list[_Node] = []
    opened: list[_Node] = []
    for mark in source.marks:
        if mark.role == "close":
            opened.pop().end = mark.offset
            continue
        node = _Node(mark.name, mark.role == "open", mark.offset, mark.offset)
        (opened[-1].children if opened else roots).append(node)
        if node.is_pair:
            opened.append(node)
    # Pairs move to the target from the outside in. Thousands of them may be nested, so that nothing recurses.
    placement = _Placement(source.text, target, links)
    roots = placement.arrange(roots, 0, len(target))
    outer = [*roots]
    while outer:
        node = outer.pop()
        node.children = placement.arrange(node.children, node.start, node.end)
        outer += node.children
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

    def __init__(self, source: str, target: str, links: Sequence[tuple[int, int]]) -> None:
        self.source, self.target = source, target
        self.src_words = [match.span() for match in _WORD.finditer(source)]
        self.tgt_words = [match.span() for match in _WORD.finditer(target)]
        self.src_starts, self.src_ends = ([word[side] for word in self.src_words] for side in (0, 1))
        self.targets = defaultdict[int, list[int]](list)  # of each source word
        for s, t in links:
            if s < len(self.src_words) and t < len(self.tgt_words):
                self.targets[s].append(t)
        self.linked = {t for targets in self.targets.values() for t in targets}
        self.ends = len(target) - len(target.lstrip()), len(target.rstrip())
        self.is_certain = True

    def arrange(self, nodes: list[_Node], low: int, high: int) -> list[_Node]:
        """Move marks to the target, between two of its characters, in the order found there."""
        spans = [self._range(node) for node in nodes]
        order = sorted(range(len(nodes)), key=lambda i: (spans[i], i))
        for i in order:
            node, (start, end) = nodes[i], spans[i]
            clipped = min(max(start, low), high), min(max(end, low), high)
            self.is_certain &= clipped == (start, end)
            node.start, node.end = clipped[0], max(clipped)
            low = node.end
        return [nodes[i] for i in order]

    def _range(self, node: _Node) -> tuple[int, int]:
        """The characters of the target for a mark of the source."""
        inside = range(bisect_right(self.src_ends, node.start), bisect_left(self.src_starts, node.end))
        word = inside.start
        src_start, src_end = self.src_words[word] if word < len(self.src_words) else (0, -1)
        if src_start <= node.start <= node.end <= src_end and len(self.targets[word]) == 1:
            first, last = self.tgt_words[self.targets[word][0]]
            if self.target[first:last].lower() == self.source[src_start:src_end].lower() and (
                last - first == src_end - src_start
            ):  # the place inside an equal word
                place = first + node.start - src_start
                return place, place + node.end - node.start
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
            return self._guess(node.start), max(self._guess(node.start), self._guess(node.end, is_end=True))
        first, last = min(words), max(words)
        others = self.linked.intersection(range(first, last)) - words if last - first < 2 * MAX_INSIDE else None
        self.is_certain &= others is not None and not others
        self.is_certain &= all(len(self.target[slice(*self.tgt_words[t])]) < MAX_WORD for t in (first, last))
        outer = self.src_words[inside[0]][0], self.src_words[inside[-1]][1]
        self.is_certain &= not any(
            map(str.isalnum, self.source[outer[0] : node.start] + self.source[node.end : outer[1]])
        )
        opening, closing = self._signs(outer[0], node.start), self._signs(node.end, outer[1])
        place, end = self.tgt_words[first][0], self.tgt_words[last][1]
        if self.target.startswith(opening, place):
            place += len(opening)
        if self.target.endswith(closing, place, end):
            end -= len(closing)
        return place, end

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

    def _guess(self, offset: int, *, is_end: bool = False) -> int:
        self.is_certain = False
        wanted = offset * len(self.target) / max(1, len(self.source))
        index = bisect_left(self.tgt_words, wanted, key=lambda word: word[is_end])
        places = [0, *(word[is_end] for word in self.tgt_words[max(0, index - 1) : index + 1])]
        return min(places, key=lambda place: abs(place - wanted))
