"""ICU messages, such as `{n, plural, one {# dog} other {# dogs}}`: the texts around and inside their arguments.

https://unicode-org.github.io/icu/userguide/format_parse/messages/. A text is a message if it has an argument with
branches. All arguments, `#` and quoted text are marks in the text around them, which stay as they are; the texts of
the branches are messages themselves.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from mtkit.text.marked import Mark, Marked, join_marked
from mtkit.text.spans import begins_message, is_spaced

_BRANCHES = r"plural|select|selectordinal"
_HEAD = re.compile(r"\{\s*[\w.-]+\s*(?:\}|,\s*(?P<type>\w+)\s*(?:\}|(?P<style>,)))")
_OFFSET = re.compile(r"\s*(?:offset\s*:\s*-?\d+\s)?")
_SELECTOR = re.compile(r"\s*(?:=-?\d+(?:\.\d+)?|[^\s{}=,'#]+)\s*\{")
_END = re.compile(r"\s*\}")
_QUOTED = re.compile(r"'[^']*(?:''[^']*)*'?")
_NUMBER = re.compile(r"#(?:[a-z]{1,3}(?!\w))?")  # with its unit, or the ending of an ordinal
_TEXT = re.compile(r"[^{}#']+")
_STYLE = re.compile(r"[{}]|'[^']*'")
_SIGNS = re.compile("[{}#]+")  # that have a meaning in a message
_SPACES = (" ", "\xa0", "\u202f")  # which a word and its number have between them
_APOSTROPHES = re.compile("'+")
_QUOTING = re.compile(r"(?:\A|(?<=[{}#]))'+|'+(?=[{}#]|\Z)|''+")  # beside a sign, an argument or another one
_MAX_DEPTH = 20  # of branches in branches


class MessageError(Exception):
    """A text that begins like a message and is none."""


class _Part(NamedTuple):
    """A part of a message, up to an offset.

    The parts of an argument with branches have the roles begin (up to the first branch), next and end.
    """

    role: Literal["text", "kept", "dropped", "begin", "next", "end"]
    end: int


class _Parser:
    """The parts of a message, without gaps; `#` is kept where any argument around counts."""

    def __init__(self, text: str) -> None:
        self._text = text

    def parts(self) -> Iterator[_Part]:
        """The parts in order; MessageError if there is an argument that cannot be read."""
        end = yield from self._message(0, 0, counts=False)
        if end < len(self._text):
            raise MessageError

    def _message(self, position: int, depth: int, *, counts: bool) -> Generator[_Part, None, int]:
        text, last = self._text, " "  # the last character that is no mark
        while position < len(text) and text[position] != "}":
            start, role = position, "kept"
            following = text[position + 1 : position + 2]
            if text[position] == "{":
                position = yield from self._argument(position, depth, counts=counts, is_apart=last.isspace())
                continue
            if (run := _TEXT.match(text, position)) is not None:
                position, role = run.end(), "text"
            elif text[position] == "'" and following == "'":
                yield _Part("dropped", position + 1)
                position, role = position + 2, "text"
            elif text[position] == "'" and following and following in ("{}#" if counts else "{}"):
                position = _match(_QUOTED, text, position)
            else:
                role = "kept" if text[start] == "#" and counts else "text"
                position = _match(_NUMBER, text, position) if role == "kept" else position + 1
            if role == "text":
                last = text[position - 1]
                yield _Part("text", position)
            else:
                position = self._end(position, is_apart=last.isspace())
                yield _Part("kept", position)
        return position

    def _argument(self, position: int, depth: int, *, counts: bool, is_apart: bool) -> Generator[_Part, None, int]:
        text = self._text
        head = _HEAD.match(text, position)
        if head is None or depth > _MAX_DEPTH or head["type"] == "choice":
            raise MessageError
        end, role = head.end(), "kept"
        if head["style"] and head["type"] not in _BRANCHES.split("|"):
            open_braces = 1
            for sign in _STYLE.finditer(text, end):
                open_braces += {"{": 1, "}": -1}.get(sign[0], 0)
                if not open_braces:
                    end = sign.end()
                    break
            else:
                raise MessageError
        elif head["style"]:
            end, role = _match(_OFFSET, text, end), "begin"
            counts |= head["type"] != "select"
            while (selector := _SELECTOR.match(text, end)) is not None:
                yield _Part("begin" if role == "begin" else "next", selector.end())
                end = (yield from self._message(selector.end(), depth + 1, counts=counts)) + 1
                role = "end"
            if role == "begin" or text[end - 1 : end] != "}":
                raise MessageError
            end = _match(_END, text, end)
        end = self._end(end, is_apart=is_apart)
        yield _Part("kept" if role == "kept" else "end", end)
        return end

    def _end(self, end: int, *, is_apart: bool) -> int:
        """The end of a mark, which brings the space after it if there is a space, or nothing, before it."""
        return end + (is_apart and self._text.startswith(_SPACES, end))


def _match(pattern: re.Pattern[str], text: str, position: int) -> int:
    if (match := pattern.match(text, position)) is None:
        raise MessageError
    return match.end()


@dataclass(eq=False)
class Message:
    """A text, of which some parts are marks.

    Attributes:
        text: what is translated.
        is_plain: the text is no message of ICU.
        doubles: apostrophes are doubled wherever they stand, as the source does; otherwise only where one would quote.
        inserted: what is written for each of these marks: stretches of the source, and the messages of branches.
        raw: the stretches of the source in order; a name is that of a mark.
        lines: of the text, and whether they are translated.
    """

    text: Marked = field(default_factory=lambda: Marked(""))
    is_plain: bool = False
    doubles: bool = False
    inserted: dict[str, list[Marked | Message]] = field(default_factory=dict)
    raw: list[Marked | str] = field(default_factory=list)
    lines: list[tuple[Marked, bool]] = field(default_factory=list)

    def messages(self) -> Iterator[Message]:
        """The message and those of its branches, in order."""
        yield self
        for pieces in self.inserted.values():
            for piece in pieces:
                if isinstance(piece, Message):
                    yield from piece.messages()

    def written(self, targets: Iterator[Marked]) -> Marked:
        """The message with these translations of `messages`.

        Raises:
            ValueError: the pairs of marks cross.
        """
        return next(targets) if self.is_plain else join_marked(list(self._written(targets)))

    def _written(self, targets: Iterator[Marked]) -> Iterator[Marked]:
        target = next(targets)
        inserted = {
            name: [part for p in pieces for part in ([p] if isinstance(p, Marked) else p._written(targets))]
            for name, pieces in self.inserted.items()
        }
        if target == self.text:
            for piece in self.raw:
                yield from inserted[piece] if isinstance(piece, str) else [piece]
            return
        text = f" {self.text.text} "
        apart = {  # whether no letter touches a mark before and behind it
            mark.name: [not is_spaced(text[mark.offset + side]) for side in (0, 1)] for mark in self.text.marks
        }
        marks: list[Mark] = []  # since the last argument
        start, last = 0, ""
        for mark in [*target.marks, None]:
            if mark is not None and mark.name not in inserted:
                marks.append(mark)
                continue
            end = len(target.text) if mark is None else mark.offset
            written = _escaped(target.text, start, end, marks, doubles=self.doubles)
            yield written
            last, start, marks = written.text[-1:] or last, end, []
            if mark is None:
                return
            following = target.text[end : end + 1]
            is_apart = apart[mark.name]
            pieces = _spaced(inserted[mark.name], last, is_last=not following.strip())
            if is_apart[0] and is_spaced(last) and not pieces[0].text.startswith(_SPACES):
                yield Marked(" ")
            yield from pieces
            last = "".join(part.text[-1:] for part in pieces)[-1:] or last
            if is_apart[1] and is_spaced(following) and not last.isspace():
                yield Marked(last := " ")


def _escaped(text: str, start: int, end: int, marks: list[Mark], *, doubles: bool) -> Marked:
    """A part of a translation as a message writes it; pairs with one mark in it are cut."""
    count = Counter(mark.name for mark in marks)
    texts, moved, length = [], [], 0
    for mark, after in zip([None, *marks], [*(mark.offset for mark in marks), end], strict=True):
        if mark is not None:
            moved.append(Mark(length, mark.role if count[mark.name] == 2 else "empty", mark.name))
            start = mark.offset
        doubled = (_APOSTROPHES if doubles else _QUOTING).sub(lambda match: 2 * match[0], text[start:after])
        texts.append(_SIGNS.sub(r"'\g<0>'", doubled))
        length += len(texts[-1])
    return Marked("".join(texts), tuple(moved))


def _spaced(pieces: list[Marked], last: str, *, is_last: bool) -> list[Marked]:
    """A mark that brings the space after it, which stands before it at the end of a text."""
    final = pieces[-1]
    is_inside = not is_last or not last or last.isspace()
    if is_inside or not final.text.endswith(_SPACES) or any(m.offset == len(final.text) for m in final.marks):
        return pieces
    return [Marked(final.text[-1]), *pieces[:-1], Marked(final.text[:-1], final.marks)]


def read_message(source: Marked) -> Message:
    """The message of a text; most have no argument with branches, and are one text.

    Raises:
        MessageError: an argument with branches cannot be read.
    """
    if not begins_message(source.text):
        return Message(text=source, is_plain=True)
    parts, doubles = list(_Parser(source.text).parts()), "''" in source.text
    stack: list[tuple[Message, list[Marked]]] = [(Message(doubles=doubles), [])]  # with the pieces of its text
    opened: list[list[Marked | Message]] = []  # pieces of arguments

    def insert(pieces: list[Marked | Message]) -> None:
        message, texts = stack[-1]
        name = f"\0{len(stack)} {len(message.raw)} {len(opened)}"
        message.inserted[name] = pieces
        message.raw.append(name)
        texts.append(Marked("", (Mark(0, "empty", name),)))

    def finish() -> Message:
        message, texts = stack.pop()
        message.text = join_marked(texts)
        return message

    for (role, _), piece in zip(parts, source.split([part.end for part in parts]), strict=True):
        if role in ("text", "dropped"):
            stack[-1][0].raw.append(piece)
            marks = tuple(replace(mark, offset=0) for mark in piece.marks)
            stack[-1][1].append(piece if role == "text" else Marked("", marks))
        elif role == "kept":
            insert([piece])
        elif role == "begin":
            opened.append([piece])
        else:
            opened[-1] += [finish(), piece]
        if role in ("begin", "next"):
            stack.append((Message(doubles=doubles), []))
        elif role == "end":
            insert(opened.pop())
    return finish()
