"""Markdown: the text of headings, paragraphs, list items and table cells, and that of HTML blocks.

Emphasis, links and code inside a text are its inline marks."""

from __future__ import annotations

import html
import itertools
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from mtkit.documents.format import DocumentFormat
from mtkit.documents.formats.html import VOID, add_tag, attribute_units, element_end, html_units, is_excluded
from mtkit.documents.markup import html_tags
from mtkit.documents.unit import MarkedBuilder, StretchError, TextUnit, has_words
from mtkit.text.marked import Marked
from mtkit.text.spans import needs_translation

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
    has_attributes = True

    def units(self, stretch: str) -> list[TextUnit]:
        """The texts of the blocks, or of their attributes: titles of links, texts of images, and those of HTML."""
        units = _Blocks(stretch, attributes=self.options.attributes).units()
        return sorted(units, key=lambda unit: unit.start) if self.options.attributes else list(units)


class _Blocks:
    """The blocks of a document, with their texts or the texts of their attributes."""

    def __init__(self, document: str, *, attributes: bool) -> None:
        from markdown_it import MarkdownIt

        start = int(document.startswith("\ufeff"))
        lines = _LINE_END.split(document[start:])
        self._document = document
        self._starts = [start, *(match.end() for match in _LINE_END.finditer(document)), len(document)]
        self._position = start  # before it all is read
        parser = MarkdownIt("commonmark", {"maxNesting": _MAX_NESTING}).enable(["table", "strikethrough"])
        parser.disable(["inline", "text_join"])  # which are read below, and take quadratic time here
        interrupts = ["paragraph", "reference", "blockquote", "list"]
        parser.block.ruler.before("table", "marker", _read_marker, {"alt": interrupts})
        ends = _FRONT_MATTER.get(lines[0].rstrip(" \t"), ())
        skipped = next((i + 1 for i, line in enumerate(lines) if i and line.rstrip(" \t") in ends), 0)
        environment: dict[str, Any] = {}
        self._tokens = parser.parse("\n".join([""] * skipped + lines[skipped:]), environment)
        self._references: dict[str, dict[str, Any]] = environment.get("references", {})
        self._attributes = attributes
        self._html_units = attribute_units if attributes else html_units

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
                yield from self._html_units(self._document, start, end)
            elif token.type == "html_block":
                content = self._locate(token.content, token.map)
                line_end = content.text.find("\n")
                # tags of several lines keep what begins the second line of the block
                between = content.raw(line_end, line_end + 1) if line_end >= 0 else ""
                for unit in self._html_units(content.text, 0, len(content.text)):
                    tags = {name: [tag.replace("\n", between) for tag in tags] for name, tags in unit.tags.items()}
                    first, last = content.offsets[unit.start], content.offsets[unit.end]
                    yield replace(unit, start=first, end=last, tags=tags)
            elif token.type == "inline":
                is_cell = self._tokens[index - 1].type in ("th_open", "td_open")
                content = self._locate(token.content, token.map, is_cell=is_cell)
                following = self._tokens[index + 2 : index + 3]
                are_terms = any(each.meta.get("terms_end") == token.map[1] for each in following)
                inline = _Inline(content, self._references)
                units = list(inline.units(is_each_line=are_terms))
                yield from inline.attributes if self._attributes else units
        for reference in self._references.values() if self._attributes else ():
            start, end = (self._starts[line] for line in reference["map"])
            if (title := _DEFINITION_TITLE.search(self._document, start, end)) is not None:
                yield from _title_units(title)

    def _locate(self, content: str, lines: list[int], *, is_cell: bool = False) -> _InlineContent:
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
        return _InlineContent(self._document, "\n".join(texts), offsets)


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
        # the blocks begin behind the marker, and their next lines are indented by 4
        before = state.bMarks[line], state.tShift[line], state.sCount[line], state.blkIndent, state.lineMax
        state.blkIndent += 4
        state.bMarks[line] = min(state.skipSpaces(match.end()), state.eMarks[line])
        state.tShift[line], state.sCount[line], state.lineMax = 0, state.blkIndent, end
        state.md.block.tokenize(state, line, end)
        state.line = max(state.line, line + 1)
        state.bMarks[line], state.tShift[line], state.sCount[line], state.blkIndent, state.lineMax = before
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


_INLINE = re.compile(
    r"(?P<opaque>(?P<ticks>`+)(?!`).+?(?<!`)(?P=ticks)(?!`)"
    r"|\$\$(?:\\.|[^$\\])+\$\$"  # formulas; in a line only what cannot be two prices
    r"|(?<![\w$])\$(?=[^\s$]+\$|[^\s$][^$]*[\\^_={}+<>])(?:\\.|[^$\\])*(?<!\s)\$(?![\w$])"
    r"|<[^<>\s][^<>\s:@]*[:@][^<>\s]*>"
    r"|(?P<br></?[Bb][Rr](?=[\s/>])[^<>]*>)|(?P<tag></?[A-Za-z][^<>]*>)"
    r"|<!--.{0,4000}?-->"  # bounded, so that time is linear
    r"|!\[(?P<alt>[^\[\]]*)\](?P<image>\([^()\n]*\)|\[[^\[\]]*\])"
    r"|\A\[[ xX]\](?=\s)|\[\^[^\[\]]+\]|https?://[^\s<>()\[\]]+)"
    r"|\\(?P<escaped>[!-/:-@\[-`{-~])|(?P<open>\[)|(?P<close>\](?:\((?:[^()\n]|\([^()\n]*\))*\)|\[[^\[\]]*\])?)"
    r"|(?P<emphasis>\*\*|__|~~|\*|_)|(?P<newline>(?P<hard>(?<![ \t]) {2,}+[ \t]*+|\\[ \t]*+)\n|(?<![ \t])[ \t]*+\n)",
    re.DOTALL,
)
_AFTER_NUMBER = "|".join(r"(?<=\A" + count * r"\d" + ")" for count in range(1, 10))  # of a list item
_SPECIAL = re.compile(
    r"[\\`*\[\]<|~]|&(?=#?\w+;)|(?<![^\W_])_|_(?![^\W_])|\A(?:[-+>#=]|!(?=!!)|:(?=::))"
    rf"|(?:{_AFTER_NUMBER})[.)](?=\s|\Z)"
)

_QUOTED = r"""(?P<title>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|\((?:\\.|[^()\\\n])*\))"""
_TITLE = re.compile(rf"\(\s*(?:<[^<>\n]*>|[^\s<]\S*)\s+{_QUOTED}\s*\)\Z")
_DEFINITION_TITLE = re.compile(rf"\]:\s*(?:<[^<>\n]*>|[^\s<]\S*)\s+{_QUOTED}[ \t]*\r?$", re.MULTILINE)
_MAX_OPEN = 8  # pairs that go on after a line break
_MAX_DEPTH = 100  # pairs that are open, of which any may be closed; so that time is linear
_MAX_LABEL = 1000  # characters of the label of a link; CommonMark has the same bound


@dataclass
class _InlineContent:
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


def _normalised(label: str) -> str:
    """The label of a link as CommonMark compares labels."""
    return " ".join(label.split()).lower().upper()


def _title_units(match: re.Match[str]) -> Iterator[TextUnit]:
    """The title that a match has, with its quotes."""
    source = html.unescape(re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", match["title"][1:-1]))
    if has_words(source):
        start, end = match.span("title")
        escape = partial(_escape_title, match["title"][0].strip("("))
        yield TextUnit(start=start + 1, end=end - 1, source=Marked(source), escape=escape)


def _escape_title(quote: str, text: str) -> str:
    text = re.sub(rf"[\\|{quote}]|&(?=#?\w+;)", r"\\\g<0>", text)
    return text.replace("(", "&#40;").replace(")", "&#41;")


def _escape(text: str) -> str:
    return _SPECIAL.sub(r"\\\g<0>", text)


class _Inline:
    """The inline content of a block, read into texts with marks."""

    def __init__(self, content: _InlineContent, references: Collection[str]) -> None:
        """Labels of links that the document defines are `references`, in upper case."""
        self.attributes: list[TextUnit] = []  # of what is read
        self._offsets, self._raw = content.offsets, content.raw
        self._content = content.text
        self._references = references
        self._builder = MarkedBuilder()
        self._opened: list[str] = []  # pairs that are open
        self._unclosed: set[str] = set()  # names of elements without an end tag
        self._last = {raw: content.text.rfind(raw) for raw in ("]", "**", "__", "~~", "*", "_")}

    def units(self, *, is_each_line: bool) -> Iterator[TextUnit]:
        """The units, without the white space around them; they end at `<br>`, or at each line end."""
        text, offsets = self._content, self._offsets
        group = "newline" if is_each_line else "br"
        breaks = [match.span() for match in _INLINE.finditer(text) if match[group] or match["br"]]
        for start, end in zip([0, *(b for _, b in breaks)], [*(a for a, _ in breaks), len(text)], strict=True):
            part = text[start:end]
            start += len(part) - len(part.lstrip(" \t\n"))
            end = start + len(part.strip(" \t\n"))
            yield from self.read(start, end).units(offsets[start], offsets[end], escape=_escape)

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
        elif match["tag"] is not None:
            return self._tag(match)
        elif match["opaque"] is not None:
            builder.opaque(raw)
            if match["image"] is not None:
                self._add_image(match)
            elif match["br"] is not None:
                self._add_html_attributes(*match.span())
        elif match["escaped"] is not None:
            builder.add(match["escaped"])
        elif match["open"] is not None:
            end = self._content.find("]", match.end(), match.end() + _MAX_LABEL) + 1
            label = self._content[match.end() : max(0, end - 1)]
            end += 2 * self._content.startswith("[]", end)
            if _normalised(label) in self._references and not self._content.startswith(("(", "["), end):
                if not needs_translation(label):
                    builder.opaque(self._raw(match.start(), end))
                    return end
                self._open(f"[{label}", raw)
            elif self._last["]"] < match.end():
                builder.add(raw)
            else:
                self._open("[", raw)
        elif match["close"] is not None and (
            link := next((key for key in reversed(self._opened) if key.startswith("[")), "")
        ):
            # a link whose text is its label keeps the label, beside the text that is translated
            self._close(link, raw if link == "[" else f"][{' '.join(link[1:].split())}]")
            self._add_title(match.start() + 1, match.end())
        elif match["close"] is not None:
            builder.add("]")
            return match.start() + 1
        else:
            return self._emphasis(match[0], match.start())
        return match.end()

    def _tag(self, match: re.Match[str]) -> int:
        """Add a tag of HTML, or an element whose content stays; return where that ends."""
        tag = next(html_tags(self._content, *match.span()), None)
        if tag is None:
            self._builder.empty(self._raw(*match.span()))
            return match.end()
        end = match.end()
        is_start = not (tag["close"] or tag["slash"] or tag["name"].lower() in VOID)
        if is_start and tag["name"] not in self._unclosed and is_excluded(tag):
            if (element := element_end(tag, len(self._content))) is None:
                self._unclosed.add(tag["name"])
            end = element or end
        add_tag(self._builder, tag, self._raw(match.start(), end))
        if end == match.end():
            self._add_html_attributes(match.start(), end)
        return end

    def _add_image(self, match: re.Match[str]) -> None:
        (start, end), offsets = match.span("alt"), self._offsets
        builder, opened = self._builder, self._opened
        self._opened = []
        self.attributes += self.read(start, end).units(offsets[start], offsets[end], escape=_escape)
        self._builder, self._opened = builder, opened
        self._add_title(*match.span("image"))

    def _add_title(self, start: int, end: int) -> None:
        """The title of a link, of which this is the address with its parentheses."""
        if (match := _TITLE.match(self._content, start, end)) is not None:
            self.attributes += self._moved(_title_units(match))

    def _add_html_attributes(self, start: int, end: int) -> None:
        self.attributes += self._moved(attribute_units(self._content, start, end))

    def _moved(self, units: Iterable[TextUnit]) -> Iterator[TextUnit]:
        offsets = self._offsets
        return (replace(unit, start=offsets[unit.start], end=offsets[unit.end]) for unit in units)

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
