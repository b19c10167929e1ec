"""Exchange formats of translators: translation memories (TMX), and XLIFF 1.2 and 2."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from mtkit.documents.markup import (
    ATTRIBUTES,
    TAG,
    Element,
    attribute,
    content_before,
    element_at,
    elements,
    escape_xml,
    marked_content,
    unescape_xml,
)
from mtkit.documents.reading import MAX_STRETCH, element_stretches
from mtkit.documents.unit import MarkedBuilder, TextUnit, has_words
from mtkit.text.language import is_language
from mtkit.text.structure.marked import Marked

_PAIRED = frozenset({"g", "pc", "mrk", "hi"})  # inline elements whose content is text
_NEW = frozenset({"", "new", "needs-translation", "initial"})  # states of a target that is no translation yet
_ALTERNATIVE = re.compile(r"<(?:[\w.-]+:)?alt-trans\b")


# a variant of a translation unit; comments and CDATA sections, which may have tags, are skipped
_VARIANT = re.compile(
    rf"<!--.*?-->|<!\[CDATA\[.*?\]\]>|<(?P<tag>tuv{ATTRIBUTES})>{content_before('seg(?=[ />])|/tuv')}"
    rf"(?P<seg><seg{ATTRIBUTES}>)(?P<content>{content_before('/seg')})</seg\s*>(?P<rest>{content_before('/tuv')})</tuv\s*>",
    re.DOTALL,
)


def _marked(content: str) -> tuple[Marked, dict[str, tuple[str, ...]]]:
    if "<" not in content:
        return Marked(unescape_xml(content)), {}
    builder = MarkedBuilder()
    marked_content(content, builder, lambda match: match["name"] in _PAIRED)
    return builder.build()


def _first(text: str, name: str, start: int, end: int) -> Element | None:
    return next(elements(text, name, start, end), None)


def _indent(text: str, start: int) -> str:
    """White space before an offset, with its line break."""
    begin = start
    while begin and text[begin - 1].isspace():
        begin -= 1
    return text[begin:start]


class _Exchange:
    """A format whose units have a source and perhaps a target."""

    is_xml = has_references = True
    names: tuple[str, ...]

    def stretches(self, chunks: Iterable[str]) -> Iterator[str]:
        """A translation unit each, with what precedes it."""
        return element_stretches(chunks, self.names)


class Tmx(_Exchange):
    """Translation memories: units without the target language get a variant of it, marked as machine translation."""

    names = ("tu",)

    def __init__(self, src_lang: str, tgt_lang: str) -> None:
        self.src_lang, self.tgt_lang = src_lang, tgt_lang

    def _variants(self, stretch: str) -> tuple[re.Match[str] | None, re.Match[str] | None]:
        """The variants (`tuv`) of source and target in the unit that ends the stretch."""
        src = tgt = None
        for variant in _VARIANT.finditer(stretch):
            lang = attribute(variant["tag"] or "", "(?:xml:)?lang")
            if lang is not None and src is None and is_language(lang, self.src_lang):
                src = variant
            elif lang is not None and tgt is None and is_language(lang, self.tgt_lang):
                tgt = variant
        return src, tgt

    def units(self, stretch: str) -> list[TextUnit]:
        """The source of the unit, if it has no target."""
        variant, target = self._variants(stretch)
        if variant is None or target is not None:
            return []
        source, tags = _marked(variant["content"])
        if not has_words(source.text):
            return []
        lang = escape_xml(self.tgt_lang).replace('"', "&quot;")
        before = f'{_indent(stretch, variant.start())}<tuv xml:lang="{lang}" creationid="MT!" creationtool="mtkit">'
        before += f"{_indent(stretch, variant.start('seg'))}<seg>"
        after = f"</seg>{_indent(stretch, variant.end('rest'))}</tuv>"
        end = variant.end()
        return [
            TextUnit(
                start=end,
                end=end,
                source=source,
                tags=tags,
                escape=escape_xml,
                in_place=False,
                before=before,
                after=after,
            )
        ]

    def pairs(self, stretch: str) -> Iterator[tuple[Marked, Marked]]:
        """Source and target of the unit, if it has both."""
        src, tgt = self._variants(stretch)
        if src is not None and tgt is not None:
            yield _marked(src["content"])[0], _marked(tgt["content"])[0]


_INHERITED = frozenset({"file", "group", "bin-unit"})  # elements whose `translate` is that of the units inside
_LANGUAGE = {"1": ("file", "target-language"), "2": ("xliff", "trgLang")}  # where a version states it
_STATES_LANGUAGE = re.compile(r"<(?:[\w.-]+:)?(?:xliff|file)[\s>]")
_CODE = re.compile("[A-Za-z]{1,8}(-[A-Za-z0-9]{1,8})*")  # the type of these attributes in XML Schema
_TRANS_UNIT = re.compile(r"<(?:[\w.-]+:)?trans-unit[\s/>]")


@dataclass
class _OpenElements:
    """The elements of XLIFF around a unit.

    Attributes:
        translates: whether the text in each of _INHERITED is translated, the outermost first.
        version: first digit of the version.
        undeclared: offset where the start tag around lacks the target language; None: it has it, or needs none.
    """

    translates: list[bool] = field(default_factory=list)
    version: str = ""
    undeclared: int | None = None

    def copy(self) -> _OpenElements:
        """The elements around the next stretch, where no tag is yet."""
        return replace(self, translates=[*self.translates], undeclared=None)

    def is_translated(self, tag: str) -> bool:
        """Return whether the text of an element is translated, by its start tag or the nearest one around."""
        stated = attribute(tag, "translate")
        return stated == "yes" if stated in ("yes", "no") else all(self.translates[-1:])

    def add(self, tag: re.Match[str]) -> None:
        """Open or close an element."""
        name = tag["name"]
        if name == "xliff" and not tag["close"]:
            self.version = (attribute(tag[0], "version") or "")[:1]
        element, language = _LANGUAGE.get(self.version, (None, ""))
        if name == element:
            is_undeclared = not tag["close"] and attribute(tag[0], language) is None
            self.undeclared = tag.end() - 1 if is_undeclared else None
        if name in _INHERITED and tag["close"]:
            del self.translates[-1:]
        elif name in _INHERITED:
            self.translates.append(self.is_translated(tag[0]))


class Xliff(_Exchange):
    """XLIFF 1.2 and 2: sources without a translation get a target whose state says that it needs a review.

    The target language is added to the start tag that lacks it, if a text inside is translated. Version 2 requires it
    where there are targets. In version 1.2 it is optional, and left out where another target precedes the text.
    """

    names = ("trans-unit", "unit")

    def __init__(self, tgt_lang: str) -> None:
        """Begin a document; a target language that is no language code is not written."""
        code = tgt_lang.replace("_", "-")
        self._tgt_lang = code if _CODE.fullmatch(code) else None
        self._open = _OpenElements()

    def stretches(self, chunks: Iterable[str]) -> Iterator[str]:
        """A translation unit each, with what precedes it.

        A start tag without the target language and the first text that is translated are in one stretch, so that the
        tag is not written before it is known whether there is such a text.
        """
        held: list[str] = []
        size, ahead = 0, self._open
        for stretch in super().stretches(chunks):
            if not held and (self._tgt_lang is None or not _STATES_LANGUAGE.search(stretch)):
                yield stretch
                continue
            if not held:
                size, ahead = 0, self._open.copy()
            held.append(stretch)
            size += len(stretch)
            self._text_units(stretch, ahead)
            if ahead.undeclared is None or size > MAX_STRETCH:
                yield "".join(held)
                held.clear()
        if held:
            yield "".join(held)

    def units(self, stretch: str) -> list[TextUnit]:
        """The sources of the unit that have no target yet."""
        self._open = self._open.copy()
        return self._text_units(stretch, self._open)

    def pairs(self, stretch: str) -> Iterator[tuple[Marked, Marked]]:
        """Sources and targets of the unit."""
        places = list(self._places(stretch, self._open))  # to the end, whatever the caller takes: it closes elements
        for _, source, target in places:
            texts = [stretch[each.content_start : each.content_end] for each in (source, target) if each is not None]
            if len(texts) == 2 and has_words(texts[1]):
                yield _marked(texts[0])[0], _marked(texts[1])[0]

    def _text_units(self, stretch: str, around: _OpenElements) -> list[TextUnit]:
        units = []
        for part, source, target in self._places(stretch, around):
            unit = self._unit(stretch, part, source, target)
            if unit is not None:
                if around.undeclared is not None and self._tgt_lang is not None:
                    language = f' {_LANGUAGE[around.version][1]}="{self._tgt_lang}"'
                    unit = replace(unit, insertions=[*unit.insertions, (around.undeclared, language)])
                units.append(unit)
                around.undeclared = None
            elif target is not None and around.version == "1":
                around.undeclared = None
        return units

    def _places(self, stretch: str, around: _OpenElements) -> Iterator[tuple[Element, Element, Element | None]]:
        """Texts to translate: (the unit or segment, its source, its target)."""
        position = 0
        while (tag := TAG.search(stretch, position)) is not None:
            position = tag.end()
            if tag["name"] in self.names and not tag["close"]:
                unit = element_at(stretch, tag)
                position = unit.end
                if around.is_translated(tag[0]):
                    yield from self._places_of_unit(stretch, unit)
            elif tag["name"] is not None and not tag[0].endswith("/>"):
                around.add(tag)

    @staticmethod
    def _places_of_unit(stretch: str, unit: Element) -> Iterator[tuple[Element, Element, Element | None]]:
        is_first_version = _TRANS_UNIT.match(unit.tag) is not None
        parts = [unit] if is_first_version else elements(stretch, "segment", unit.content_start, unit.content_end)
        for part in parts:
            alternative = _ALTERNATIVE.search(stretch, part.content_start, part.content_end)
            end = part.content_end if alternative is None else alternative.start()
            source = _first(stretch, "source", part.content_start, end)
            if source is not None:
                yield part, source, _first(stretch, "target", source.end, end)

    def _unit(self, stretch: str, part: Element, source: Element, target: Element | None) -> TextUnit | None:
        marked, tags = _marked(stretch[source.content_start : source.content_end])
        if not has_words(marked.text):
            return None
        is_first_version = _TRANS_UNIT.match(part.tag) is not None
        prefix = re.match(r"<([\w.-]+:)?", source.tag)
        name = f"{(prefix and prefix[1]) or ''}target"
        tag = f'<{name} state="needs-review-translation" state-qualifier="mt-suggestion">'
        if not is_first_version:
            tag = f"<{name}>"
        insertions = []
        if not is_first_version and attribute(part.tag, "state") is None:
            insertions = [(part.content_start - 1, ' state="initial"')]
        start = end = self._after(stretch, part, source)
        before, after = f"{_indent(stretch, source.start)}{tag}", f"</{name}>"
        if target is not None:
            content = stretch[target.content_start : target.content_end]
            if content.strip() or (attribute(target.tag, "state") or attribute(part.tag, "state") or "") not in _NEW:
                return None
            start, end, before = target.start, target.end, _with_state(target.tag, tag, is_first_version)
        return TextUnit(
            start=start,
            end=end,
            source=marked,
            tags=tags,
            escape=escape_xml,
            in_place=False,
            before=before,
            after=after,
            insertions=insertions,
        )

    @staticmethod
    def _after(stretch: str, part: Element, source: Element) -> int:
        """Offset where a new target is written: after the source, and its segmented form."""
        segmented = _first(stretch, "seg-source", source.end, part.content_end)
        return source.end if segmented is None else segmented.end


def _with_state(old: str, new: str, is_first_version: bool) -> str:
    """The start tag of an empty target, which keeps its attributes."""
    tag = re.sub(r"\s*/?>\Z", ">", old)
    if not is_first_version:
        return tag
    tag = re.sub(r"""\s+state(?:-qualifier)?\s*=\s*(?:"[^"]*"|'[^']*')""", "", tag)
    return tag[:-1] + new[new.index(" ") :]
