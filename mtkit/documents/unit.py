"""Text units of a document, and their replacement by translations."""

from __future__ import annotations

import itertools
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from mtkit.text.marked import Mark, Marked
from mtkit.text.spans import is_spaced

_MAX_OPAQUE = 1000  # characters to which more are added, so that time is linear
_GAP = re.compile(" ?[-+/,;:|·×→–—]? ?")  # between two pieces of code; no format has escapes for these


@dataclass(frozen=True, kw_only=True)
class TextUnit:
    """A text in a stretch of a document, and where and how its translation is written.

    Attributes:
        start, end: characters of the stretch that the translation replaces.
        source: the text without the document's escapes, with inline marks.
        tags: what is written for each mark: one string for an empty mark, two for a pair.
        escape: text as the document writes it.
        in_place: the translation takes the place of the source; one that is equal leaves the stretch as it is.
        ordered: the marks stay in their order, since what lies between them is no pair of tags.
        breaks: names of the marks that stand for white space, such as line breaks.
        before, after: written around the translation.
        insertions: offsets in the stretch, and what is inserted there if the unit is translated.
        left: why the text is left as it is, such as "translated already"; empty: it is translated.
    """

    start: int
    end: int
    source: Marked
    tags: Mapping[str, Sequence[str]] = field(default_factory=dict)
    escape: Callable[[str], str] = str
    in_place: bool = True
    ordered: bool = False
    breaks: frozenset[str] = frozenset()
    before: str = ""
    after: str = ""
    insertions: Sequence[tuple[int, str]] = ()
    left: str = ""

    def edits(self, target: Marked) -> Iterator[tuple[int, int, str]]:
        """(start, end, text) of the characters that change with this translation."""
        if self.in_place and target == self.source:
            return
        yield from ((offset, offset, text) for offset, text in self.insertions)
        yield self.start, self.end, f"{self.before}{self._write(target)}{self.after}"

    def _write(self, target: Marked) -> str:
        offsets = [0, *(mark.offset for mark in target.marks), len(target.text)]
        texts = [target.text[start:end] for start, end in itertools.pairwise(offsets)]
        for index, mark in enumerate(target.marks):
            if mark.name in self.breaks:
                texts[index], texts[index + 1] = texts[index].rstrip(), texts[index + 1].lstrip()
        written, names, last = [self.escape(texts[0])], set(), texts[0][-1:]
        beside = {mark.name: self.source.text[max(0, mark.offset - 1) : mark.offset + 1] for mark in self.source.marks}
        for mark, text in zip(target.marks, texts[1:], strict=True):
            raw = self.tags[mark.name][-1 if mark.name in names else 0]
            if mark.role == "empty" and mark.name not in self.breaks:
                if raw.endswith(" ") and last and not last.isspace():
                    raw = f" {raw[:-1]}"  # behind a word
                elif is_spaced(text[:1]) and beside[mark.name][:1].isspace() and not is_spaced(beside[mark.name][-1]):
                    raw += " "  # a full stop or comma followed it, and now a word does
            written += [raw, self.escape(text)]
            last = text[-1:] or last
            names.add(mark.name)
        return "".join(written)


def joined_surrogates(text: str) -> str:
    """The text with each pair of surrogates, as escapes of UTF-16 give them, as one character; a lone one is U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def left_unit(reason: str, source: Marked | None = None) -> TextUnit:
    """A text that is left as it is, which is counted."""
    return TextUnit(start=0, end=0, source=source or Marked(""), left=reason)


class StretchError(Exception):
    """Something in a stretch that is not of its format.

    Args:
        offset: where it is.
        reason: what it is.
    """

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(reason)
        self.offset = offset


class MarkedBuilder:
    """Builds a text with marks from texts and tags in their order; tags that cross or lack a partner are empty."""

    def __init__(self, *, collapse: bool = False) -> None:
        """Begin; `collapse` leaves out spaces before all texts and tags, and after other spaces."""
        self._collapse = collapse
        self._texts: list[str] = []
        self._length = 0
        self.last = ""  # the last character
        self._marks: list[tuple[int, str, str]] = []  # offset, key, raw
        self._partner: dict[int, int] = {}  # of marks, by index
        self._opened: list[int] = []
        self._lone = False  # whether an empty tag was added last
        self._is_after_opaque, self._since_opaque = False, 0  # whether the last tag is opaque, and number of texts then
        self.breaks: set[str] = set()

    def add(self, text: str) -> None:
        """Add text."""
        if self._lone and text[:1].isspace() and (not self.last or self.last.isspace()):
            # the space after a tag that stands alone between two spaces moves with it
            offset, key, raw = self._marks[-1]
            self._marks[-1] = (offset, key, raw + text[0])
            text = text[1:]
        if self._collapse and (self.last == " " or not (self.last or self._marks)):
            text = text.lstrip(" ")
        self._lone = self._lone and not text
        self._texts.append(text)
        self._length += len(text)
        self.last = text[-1:] or self.last

    def empty(self, raw: str, *, is_break: bool = False) -> None:
        """Add a tag without a partner; a break stands for the space before it."""
        self._lone, self._is_after_opaque = not is_break, False
        if is_break:
            self.breaks.add(str(len(self._marks)))
        self._marks.append((self._length, "", raw))

    def opaque(self, raw: str) -> None:
        """Add text that stays, such as code; one tag with such a text before it if there are no words between them."""
        gap = "".join(self._texts[self._since_opaque :])
        if self._is_after_opaque and _GAP.fullmatch(gap) and len(self._marks[-1][2]) < _MAX_OPAQUE:
            del self._texts[self._since_opaque :]
            self._length -= len(gap)
            self.last = next((text[-1] for text in reversed(self._texts) if text), "")
            raw = f"{self._marks.pop()[2]}{gap}{raw}"
        self.empty(raw)
        self._is_after_opaque, self._since_opaque = True, len(self._texts)

    def open(self, key: str, raw: str) -> None:
        """Add the first tag of a pair with this key."""
        self._lone = self._is_after_opaque = False
        self._opened.append(len(self._marks))
        self._marks.append((self._length, key, raw))

    def close(self, key: str, raw: str) -> None:
        """Add the second tag of the last pair with this key that was opened."""
        self._lone = self._is_after_opaque = False
        index = len(self._marks)
        self._marks.append((self._length, key, raw))
        while any(self._marks[each][1] == key for each in self._opened[-8:]):
            opened = self._opened.pop()
            if self._marks[opened][1] != key:
                continue
            if self._marks[opened][0] == self._length and not self.breaks:  # no text inside: one empty tag
                raw = "".join(each for _, _, each in self._marks[opened:])
                for mark in range(opened, len(self._marks)):
                    self._partner.pop(mark, None)
                del self._marks[opened:]
                self.empty(raw)
                return
            self._partner[opened], self._partner[index] = index, opened
            return

    @property
    def text(self) -> str:
        """The text added so far."""
        return "".join(self._texts)

    def build(self) -> tuple[Marked, dict[str, tuple[str, ...]]]:
        """The text with its marks, and what is written for each."""
        marks: list[Mark] = []
        tags: dict[str, tuple[str, ...]] = {}
        for index, (offset, _, raw) in enumerate(self._marks):
            partner = self._partner.get(index)
            if partner is None:
                marks.append(Mark(offset, "empty", str(index)))
                tags[str(index)] = (raw,)
            elif partner > index:
                marks.append(Mark(offset, "open", str(index)))
                tags[str(index)] = (raw, self._marks[partner][2])
            else:
                marks.append(Mark(offset, "close", str(partner)))
        return Marked(self.text, tuple(marks)), tags

    def units(
        self,
        start: int,
        end: int,
        *,
        escape: Callable[[str], str],
        ordered: bool = False,
        before: str = "",
        after: str = "",
    ) -> list[TextUnit]:
        """The text as a unit, if it has words; see TextUnit for the arguments."""
        if not has_words(self.text):
            return []
        source, tags = self.build()
        return [
            TextUnit(
                start=start,
                end=end,
                source=source,
                tags=tags,
                escape=escape,
                ordered=ordered,
                breaks=frozenset(self.breaks),
                before=before,
                after=after,
            )
        ]


def has_words(text: str) -> bool:
    """Return whether there may be anything to translate: a letter."""
    return any(char.isalpha() for char in text)


def place_in_order(source: Marked, target: str) -> Marked:
    """The translation with the marks of the source in their order, in proportion to the length of the text.

    A mark inside the text is placed at the nearest beginning of a word, or anywhere in a text without spaces.
    """
    starts = [i for i in range(1, len(target)) if target[i - 1].isspace() and not target[i].isspace()]
    starts = [0, *(starts or range(1, len(target))), len(target)]
    first, end = len(source.text) - len(source.text.lstrip()), len(source.text.rstrip())
    marks, last = [], 0
    for mark in source.marks:
        wanted = mark.offset * len(target) / max(1, len(source.text))
        if mark.offset <= first:
            offset = 0
        elif mark.offset >= end:
            offset = len(target)
        else:
            index = bisect_left(starts, wanted)
            offset = min(starts[max(0, index - 1) : index + 1], key=lambda start: abs(start - wanted))
        last = max(last, offset)
        marks.append(Mark(last, mark.role, mark.name))
    return Marked(target, tuple(marks))
