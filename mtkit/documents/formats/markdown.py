"""Markdown: the text of headings, paragraphs, list items and table cells, and that of HTML blocks."""

from __future__ import annotations

import html
import itertools
import re
from typing import Any

from mtkit.documents.formats.html import html_units
from mtkit.documents.reading import WholeText
from mtkit.documents.unit import MarkedBuilder, TextUnit, has_words

_FRONT_MATTER = re.compile(r"\A---[ \t]*\n.*?^(?:---|\.\.\.)[ \t]*$\n?", re.DOTALL | re.MULTILINE)
_INLINE = re.compile(
    r"(?P<opaque>(?P<ticks>`+)(?!`).+?(?<!`)(?P=ticks)(?!`)|<[^<>\s]+[:@][^<>\s]*>|</?[A-Za-z][^<>]*>|<!--.*?-->"
    r"|!\[[^\[\]]*\](?:\([^()\n]*\)|\[[^\[\]]*\])|\A\[[ xX]\](?=\s)|\[\^[^\[\]]+\]|https?://[^\s<>()\[\]]+)"
    r"|\\(?P<escaped>[!-/:-@\[-`{-~])|(?P<open>\[)|(?P<close>\](?:\((?:[^()\n]|\([^()\n]*\))*\)|\[[^\[\]]*\])?)"
    r"|(?P<emphasis>\*\*|__|~~|\*|_)|(?P<newline>(?P<hard> {2,}|\\)?[ \t]*\n)",
    re.DOTALL,
)
_SPECIAL = re.compile(r"[\\`*\[\]<|~]|(?<!\w)_|_(?!\w)|\A[-+>#=]|(?<=\A\d)[.)](?=\s)|(?<=\A\d\d)[.)](?=\s)")


class Markdown(WholeText):
    """Markdown with tables and strikethrough; code, addresses and the front matter stay."""

    def units(self, stretch: str) -> list[TextUnit]:
        """The texts of the blocks, in order."""
        from markdown_it import MarkdownIt

        front = _FRONT_MATTER.match(stretch)
        skipped = 0 if front is None else stretch.count("\n", 0, front.end())
        lines = stretch.split("\n")
        starts = [0, *itertools.accumulate(len(line) + 1 for line in lines)]
        environment: dict[str, Any] = {}
        parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
        tokens = parser.parse("\n".join([""] * skipped + lines[skipped:]), environment)
        references = set(environment.get("references", {}))
        units: list[TextUnit] = []
        for token in tokens:
            if token.map is None or token.type not in ("inline", "html_block"):
                continue
            start, end = starts[token.map[0]], min(starts[token.map[1]], len(stretch))
            start = max(start, units[-1].end if units else 0)
            if token.type == "html_block":
                units += html_units(stretch, start, end)
            elif (unit := _unit(stretch, start, end, token.content, references)) is not None:
                units.append(unit)
        return units


def _unit(text: str, start: int, end: int, content: str, references: set[str]) -> TextUnit | None:
    """The unit of an inline content in a part of the text; None if it has no words or is written in another way."""
    spans, position = [], start
    for line in content.split("\n"):
        found = text.find(line.strip(" "), position, end)
        if found < 0:
            return None
        position = found + len(line.strip(" "))
        spans.append((found, position))
    builder = MarkedBuilder()
    _Inline(content, builder, references, [text[a[1] : b[0]] for a, b in itertools.pairwise(spans)]).read()
    if not has_words(builder.text):
        return None
    source, tags = builder.build()
    return TextUnit(
        start=spans[0][0],
        end=spans[-1][1],
        source=source,
        tags=tags,
        escape=_escape,
        breaks=frozenset(builder.breaks),
    )


def _escape(text: str) -> str:
    return _SPECIAL.sub(r"\\\g<0>", text)


class _Inline:
    """The inline content of a block, added to a text with marks."""

    def __init__(self, content: str, builder: MarkedBuilder, references: set[str], between: list[str]) -> None:
        self._content = content.strip(" ")
        self._builder = builder
        self._references = references
        self._between = iter(between)  # characters of the document between the lines
        self._opened: list[str] = []
        self._brackets = 0  # that are open

    def read(self) -> None:
        """Add all of it."""
        position = 0
        while (match := _INLINE.search(self._content, position)) is not None:
            self._builder.add(html.unescape(self._content[position : match.start()]))
            position = self._add(match)
        self._builder.add(html.unescape(self._content[position:]))

    def _add(self, match: re.Match[str]) -> int:
        """Add a piece of syntax; return where it ends."""
        raw, builder = match[0], self._builder
        if match["newline"] is not None:
            self._newline(match["hard"])
        elif match["opaque"] is not None:
            for _ in range(raw.count("\n")):
                next(self._between)
            builder.empty(raw)
        elif match["escaped"] is not None:
            builder.add(match["escaped"])
        elif match["open"] is not None:
            label = self._content[match.end() :].partition("]")[0]
            end = match.end() + len(label) + 1
            end += 2 * self._content.startswith("[]", end)
            if label.upper() in self._references and not self._content.startswith(("(", "["), end):
                builder.empty(self._content[match.start() : end])
                return end
            if "]" not in self._content[match.end() :]:
                builder.add(raw)
                return match.end()
            self._brackets += 1
            builder.open("[", raw)
        elif match["close"] is not None and self._brackets:
            self._brackets -= 1
            builder.close("[", raw)
        elif match["close"] is not None:
            builder.add("]")
            return match.start() + 1
        else:
            return self._emphasis(raw, match.start())
        return match.end()

    def _newline(self, hard: str | None) -> None:
        between = next(self._between, "\n")
        self._builder.add(" ")
        if hard:
            self._builder.empty(between if between.startswith(hard) else hard + between, is_break=True)

    def _emphasis(self, raw: str, start: int) -> int:
        """Add a delimiter, as text if it opens and closes nothing; return where it ends."""
        if self._opened[-1:] == [raw[0]] and self._content.startswith(raw[0] * 3, start):
            raw = raw[0]  # of three, the inner one closes first
        before, rest = self._content[start - 1 : start] if start else "", self._content[start + len(raw) :]
        after = rest[:1]
        is_word = before.isalnum() and after.isalnum()
        if raw in self._opened and before and not before.isspace() and not (raw[0] == "_" and is_word):
            self._opened.remove(raw)
            self._builder.close(raw, raw)
        elif raw in rest and not after.isspace() and not (raw[0] == "_" and is_word):
            self._opened.append(raw)
            self._builder.open(raw, raw)
        else:
            self._builder.add(raw)
        return start + len(raw)
