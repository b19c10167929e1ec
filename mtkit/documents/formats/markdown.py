"""Markdown: the text of headings, paragraphs, list items and table cells, and that of HTML blocks."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mtkit.documents.format import DocumentFormat
from mtkit.documents.formats.html import html_units
from mtkit.documents.formats.markdown_inline import InlineContent, inline_units
from mtkit.documents.unit import StretchError, TextUnit

if TYPE_CHECKING:
    from markdown_it.rules_block import StateBlock

_LINE_END = re.compile(r"\r\n?|\n")
_FRONT_MATTER = {"---": ("---", "..."), "+++": ("+++",)}  # first line, and last lines: YAML, TOML
_MARKER = re.compile(
    r"(?P<line>\[![\w-]+\][+-]?(?=[ \t]|$)|:::.*)"  # of an alert, of a container
    r"|(?P<indented>(?:(?:!!!|\?\?\?\+?)(?P<words>[\w \t-]*)|===[!+]?[ \t]*)(?P<title>\".*\"[ \t]*)?$)"  # admonition
    r"|(?P<item>\[\^[^\[\]\s]+\]:|:(?=[ \t]+\S))"  # footnote, definition
)
_MAX_NESTING = 100  # of blocks; markdown-it leaves out what is deeper


class Markdown(DocumentFormat):
    """Markdown with tables, strikethrough, footnotes, definition lists, alerts, containers and admonitions.

    Code, addresses, the front matter and the lines that begin or end such a block stay.
    """

    suffixes = (".md", ".markdown")

    def units(self, stretch: str) -> list[TextUnit]:
        """The texts of the blocks, in order."""
        return list(_Blocks(stretch).units())


class _Blocks:
    """The blocks of a document."""

    def __init__(self, document: str) -> None:
        from markdown_it import MarkdownIt

        start = int(document.startswith("\ufeff"))
        lines = _LINE_END.split(document[start:])
        self._document = document
        self._starts = [start, *(match.end() for match in _LINE_END.finditer(document)), len(document)]
        self._position = start  # before it all is read
        parser = MarkdownIt("commonmark", {"maxNesting": _MAX_NESTING}).enable(["table", "strikethrough"])
        parser.disable(["inline", "text_join"])  # which are read by markdown_inline, and take quadratic time here
        interrupts = ["paragraph", "reference", "blockquote", "list"]
        parser.block.ruler.before("table", "marker", _read_marker, {"alt": interrupts})
        skipped = _front_matter_length(lines)
        environment: dict[str, Any] = {}
        self._tokens = parser.parse("\n".join([""] * skipped + lines[skipped:]), environment)
        self._references = set(environment.get("references", {}))

    def units(self) -> Iterator[TextUnit]:
        """The units in order.

        Raises:
            StretchError: there is text that is not read.
        """
        for index, token in enumerate(self._tokens):
            if token.map is None:
                continue
            start, end = (self._starts[line] for line in token.map)
            if token.type in ("blockquote_open", "list_item_open", "marker_open") and token.level >= _MAX_NESTING - 1:
                raise StretchError(start, f"a block in {_MAX_NESTING} others; make the document flatter")
            if token.type == "marker_open":
                self._position = start + token.meta["length"]
            elif token.type == "html_block" and token.level == 0:
                yield from html_units(self._document, start, end)
            elif token.type == "html_block":
                yield from _html_units(self._locate(token.content, token.map))
            elif token.type == "inline":
                yield from self._inline_units(index, token.map)

    def _inline_units(self, index: int, lines: list[int]) -> Iterator[TextUnit]:
        """The units of an inline token that has these lines."""
        is_cell = self._tokens[index - 1].type in ("th_open", "td_open")
        content = self._locate(self._tokens[index].content, lines, is_cell=is_cell)
        are_terms = any(each.meta.get("terms_end") == lines[1] for each in self._tokens[index + 2 : index + 3])
        return inline_units(content, self._references, is_each_line=are_terms)

    def _locate(self, content: str, lines: list[int], *, is_cell: bool = False) -> InlineContent:
        """The content of a token, and where it is in these lines of the document."""
        number, last = lines
        texts: list[str] = []
        offsets: list[int] = []
        find = self._document.find if is_cell else self._document.rfind
        for line in content.removesuffix("\n").split("\n"):
            text, place = line.lstrip(" \t"), -1
            written = text.replace("|", r"\|") if is_cell else text
            while place < 0:
                if number == last:
                    raise StretchError(self._starts[lines[0]], f"{text[:40]!r} is not found where it is read")
                place = find(written, max(self._starts[number], self._position), self._starts[number + 1])
                number += 1
            self._position = place + len(written)
            texts.append(text)
            escapes = itertools.accumulate((is_cell and char == "|" for char in text), initial=0)
            offsets += [place + index + escaped for index, escaped in enumerate(escapes)]
        return InlineContent(self._document, "\n".join(texts), offsets)


def _front_matter_length(lines: list[str]) -> int:
    """Lines of the front matter."""
    ends = _FRONT_MATTER.get(lines[0].rstrip(" \t"), ())
    return next((i + 1 for i, line in enumerate(lines) if i and line.rstrip(" \t") in ends), 0)


def _read_marker(state: StateBlock, line: int, last: int, silent: bool) -> bool:
    """Rule of markdown-it for a marker; the blocks behind it and those below that are indented by 4 belong to it."""
    start = state.bMarks[line] + state.tShift[line]
    match = None if state.is_code_block(line) else _MARKER.match(state.src, start, state.eMarks[line])
    if match is None:
        return False
    end = last if match["item"] else line + 1
    if match["indented"]:
        end = _indented_end(state, line, last)
        words = (match["words"] or "").split()
        is_short = len(words) == 1 and match[0].startswith("!")
        if not match["title"] and not (words and (is_short or end > line + 1)):
            return False  # a sentence
    if not silent:
        token = state.push("marker_open", "", 1)
        token.map = [line, line + 1]
        token.meta = {"length": match.end() - (state.src.rfind("\n", 0, start) + 1)}
        if match[0] == ":":
            token.meta["terms_end"] = line
        _read_blocks(state, line, end, match.end())
        state.push("marker_close", "", -1)
    return True


def _indented_end(state: StateBlock, marker: int, last: int) -> int:
    """Line after the blocks below a marker that are indented by 4."""
    indent = min(state.blkIndent, state.sCount[marker]) + 4
    end = marker + 1
    for line in range(marker + 1, last):
        if state.isEmpty(line):
            continue
        if state.sCount[line] < indent:
            break
        end = line + 1
    return end


def _read_blocks(state: StateBlock, line: int, end: int, position: int) -> None:
    """Read blocks that begin behind a marker, whose next lines are indented by 4."""
    before = state.bMarks[line], state.tShift[line], state.sCount[line], state.blkIndent, state.lineMax
    state.blkIndent += 4
    state.bMarks[line] = min(state.skipSpaces(position), state.eMarks[line])
    state.tShift[line], state.sCount[line], state.lineMax = 0, state.blkIndent, end
    state.md.block.tokenize(state, line, end)
    state.line = max(state.line, line + 1)
    state.bMarks[line], state.tShift[line], state.sCount[line], state.blkIndent, state.lineMax = before


def _html_units(content: InlineContent) -> Iterator[TextUnit]:
    """The units of HTML in other blocks; tags of several lines keep what begins the second line of the block."""
    line_end = content.text.find("\n")
    between = content.raw(line_end, line_end + 1) if line_end >= 0 else ""
    for unit in html_units(content.text, 0, len(content.text)):
        start, end = content.offsets[unit.start], content.offsets[unit.end]
        tags = {name: [tag.replace("\n", between) for tag in tags] for name, tags in unit.tags.items()}
        yield replace(unit, start=start, end=end, tags=tags)
