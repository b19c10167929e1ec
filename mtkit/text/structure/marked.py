"""Text with inline marks: the tags of a document inside the text that they mark, apart from its characters.

`Hello <b>world</b>` is the text `Hello world` with an opening mark at 6 and a closing mark at 11, both named `1`. A
document keeps what is written for each name, so that marks can be moved without knowing its format.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal


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


def place_marks(source: Marked, target: str, links: Sequence[tuple[int, int]]) -> tuple[Marked, bool]:
    """Place the marks of a source in its translation.

    Marks at the beginning and end of the source stay there. The others are placed in proportion to the length of the
    text, at the beginning of the nearest word: a guess.

    Args:
        source: the source text with its marks.
        target: the translation.
        links: word alignment, pairs of indices (source word, target word); words are separated by white space.

    Returns:
        The translation with every mark of the source, nested; and whether all places are certain.
    """
    starts = [0, *(i for i in range(1, len(target)) if target[i - 1].isspace() and not target[i].isspace())]
    marks, last, certain = [], 0, True
    for mark in source.marks:
        if not source.text[: mark.offset].strip():
            offset = min(mark.offset, len(target) - len(target.lstrip()))
        elif not source.text[mark.offset :].strip():
            offset = len(target)
        else:
            wanted = mark.offset * len(target) / len(source.text)
            offset = min(starts, key=lambda start: abs(start - wanted))
            if mark.role == "close":
                offset = len(target[:offset].rstrip())
            certain = False
        last = max(last, offset)
        marks.append(Mark(last, mark.role, mark.name))
    return Marked(target, tuple(marks)), certain
