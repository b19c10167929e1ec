"""The inline content of Markdown: texts with emphasis, links and code as inline marks."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass

from mtkit.documents.unit import MarkedBuilder, TextUnit, has_words

_INLINE = re.compile(
    r"(?P<opaque>(?P<ticks>`+)(?!`).+?(?<!`)(?P=ticks)(?!`)|<[^<>\s][^<>\s:@]*[:@][^<>\s]*>"
    r"|(?P<br></?[Bb][Rr](?=[\s/>])[^<>]*>)|</?[A-Za-z][^<>]*>|<!--.*?-->"
    r"|!\[[^\[\]]*\](?:\([^()\n]*\)|\[[^\[\]]*\])|\A\[[ xX]\](?=\s)|\[\^[^\[\]]+\]|https?://[^\s<>()\[\]]+)"
    r"|\\(?P<escaped>[!-/:-@\[-`{-~])|(?P<open>\[)|(?P<close>\](?:\((?:[^()\n]|\([^()\n]*\))*\)|\[[^\[\]]*\])?)"
    r"|(?P<emphasis>\*\*|__|~~|\*|_)|(?P<newline>(?P<hard>(?<![ \t]) {2,}+[ \t]*+|\\[ \t]*+)\n|(?<![ \t])[ \t]*+\n)",
    re.DOTALL,
)
_SPECIAL = re.compile(
    r"[\\`*\[\]<|~]|&(?=#?\w+;)|(?<![^\W_])_|_(?![^\W_])|\A(?:[-+>#=]|!(?=!!)|:(?=::))|(?<=\A\d)[.)](?=\s)|(?<=\A\d\d)[.)](?=\s)"
)

_MAX_OPEN = 8  # pairs that go on after a line break
_MAX_DEPTH = 100  # pairs that are open, of which any may be closed; so that time is linear
_MAX_LABEL = 1000  # characters of the label of a link; CommonMark has the same bound


@dataclass
class InlineContent:
    """The content of a block.

    Attributes:
        document: the text that has it.
        text: lines of the block, without what begins them in the document.
        offsets: of each of its characters in the document, and of its end; pipes of cells are escaped there.
    """

    document: str
    text: str
    offsets: list[int]

    def raw(self, start: int, end: int) -> str:
        """Characters of the document."""
        return self.document[self.offsets[start] : self.offsets[end]]


def inline_units(content: InlineContent, references: set[str], *, is_each_line: bool) -> Iterator[TextUnit]:
    """The units of an inline content: the texts between two `<br>`, or also between two lines.

    Args:
        content: the content.
        references: labels of links that the document defines, in upper case.
        is_each_line: each line is a text.
    """
    inline = _Inline(content, references)
    for start, end in _parts(content.text, is_each_line=is_each_line):
        builder = inline.read(start, end)
        if not has_words(builder.text):
            continue
        source, tags = builder.build()
        yield TextUnit(
            start=content.offsets[start],
            end=content.offsets[end],
            source=source,
            tags=tags,
            escape=_escape,
            breaks=frozenset(builder.breaks),
        )


def _parts(text: str, *, is_each_line: bool) -> Iterator[tuple[int, int]]:
    """(start, end) of the texts of a content, without the white space around them."""
    group = "newline" if is_each_line else "br"
    breaks = [match.span() for match in _INLINE.finditer(text) if match[group] or match["br"]]
    for start, end in zip([0, *(b for _, b in breaks)], [*(a for a, _ in breaks), len(text)], strict=True):
        part = text[start:end]
        start += len(part) - len(part.lstrip(" \t\n"))
        yield start, start + len(part.strip(" \t\n"))


def _escape(text: str) -> str:
    return _SPECIAL.sub(r"\\\g<0>", text)


class _Inline:
    """The inline content of a block, read into texts with marks."""

    def __init__(self, content: InlineContent, references: set[str]) -> None:
        self._raw = content.raw
        self._content = content.text
        self._references = references
        self._builder = MarkedBuilder()
        self._opened: list[str] = []  # pairs that are open
        self._last = {raw: content.text.rfind(raw) for raw in ("]", "**", "__", "~~", "*", "_")}

    def read(self, start: int, end: int) -> MarkedBuilder:
        """Read the next part; the two parts of a pair that is cut are pairs of their own."""
        self._builder = MarkedBuilder()
        del self._opened[:-_MAX_OPEN]
        for key in self._opened:
            self._builder.open(key, "")
        while (match := _INLINE.search(self._content, start, end)) is not None:
            self._builder.add(html.unescape(self._content[start : match.start()]))
            start = self._add(match)
        self._builder.add(html.unescape(self._content[start:end]))
        for key in reversed(self._opened if end < len(self._content) else ()):
            self._builder.close(key, "")
        return self._builder

    def _add(self, match: re.Match[str]) -> int:
        """Add a piece of syntax; return where it ends."""
        builder, raw = self._builder, self._raw(*match.span())
        if match["newline"] is not None:
            builder.add(" ")
            if match["hard"]:
                builder.empty(raw, is_break=True)
        elif match["opaque"] is not None:
            builder.empty(raw)
        elif match["escaped"] is not None:
            builder.add(match["escaped"])
        elif match["open"] is not None:
            end = self._content.find("]", match.end(), match.end() + _MAX_LABEL) + 1
            label = self._content[match.end() : max(0, end - 1)]
            end += 2 * self._content.startswith("[]", end)
            if label.upper() in self._references and not self._content.startswith(("(", "["), end):
                builder.empty(self._raw(match.start(), end))
                return end
            if self._last["]"] < match.end():
                builder.add(raw)
                return match.end()
            self._open("[", raw)
        elif match["close"] is not None and "[" in self._opened:
            self._close("[", raw)
        elif match["close"] is not None:
            builder.add("]")
            return match.start() + 1
        else:
            return self._emphasis(match[0], match.start())
        return match.end()

    def _open(self, key: str, raw: str) -> None:
        self._opened.append(key)
        del self._opened[:-_MAX_DEPTH]
        self._builder.open(key, raw)

    def _close(self, key: str, raw: str) -> None:
        del self._opened[len(self._opened) - 1 - self._opened[::-1].index(key)]
        self._builder.close(key, raw)

    def _emphasis(self, raw: str, start: int) -> int:
        """Add a delimiter, as text if it opens and closes nothing; return where it ends."""
        if self._opened[-1:] == [raw[0]] and self._content.startswith(raw[0] * 3, start):
            raw = raw[0]  # of three, the inner one closes first
        end = start + len(raw)
        before, after = self._content[start - 1 : start] if start else "", self._content[end : end + 1]
        is_word = before.isalnum() and after.isalnum()
        if raw in self._opened and before and not before.isspace() and not (raw[0] == "_" and is_word):
            self._close(raw, raw)
        elif self._last[raw] >= end and not after.isspace() and not (raw[0] == "_" and is_word):
            self._open(raw, raw)
        else:
            self._builder.add(raw)
        return end
