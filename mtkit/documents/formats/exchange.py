"""Exchange formats of translators: translation memories (TMX), and XLIFF 1.2 and 2."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from mtkit.documents.format import DocumentFormat, DocumentOptions
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
from mtkit.documents.unit import MarkedBuilder, StretchError, TextUnit, has_words, left_unit
from mtkit.text.language import is_language
from mtkit.text.marked import Marked

_PAIRED = frozenset({"g", "pc", "mrk", "hi"})  # inline elements whose content is text
_NEW = frozenset({"", "new", "needs-translation", "initial"})  # states of a target that may be no translation yet
_DONE = "translated already"
_EXCLUDED = "not to be translated"
_UNSURE = "with a target that is neither empty nor a copy, in a state that asks for a translation"
_UNMATCHED = "segments that the source lacks"
_LACKING = "segments that the target lacks before others"
_ALTERNATIVE = re.compile(r"<(?:[\w.-]+:)?alt-trans\b")


# A variant of a translation unit, without another one inside, so that time is linear; comments and CDATA sections are
# skipped, since they may have tags
_NEXT = r"/?tuv(?=[\s/>])"
_VARIANT = re.compile(
    rf"<!--.*?-->|<!\[CDATA\[.*?\]\]>|<(?P<tag>tuv(?=[\s/>]){ATTRIBUTES})>{content_before(rf'{_NEXT}|seg(?=[ />])')}"
    rf"(?P<seg><seg{ATTRIBUTES}>)(?P<content>{content_before(f'{_NEXT}|/?seg')})</seg\s*>"
    rf"(?P<rest>{content_before(_NEXT)})</tuv\s*>",
    re.DOTALL,
)

_ANY = "[^<>]*"  # no attribute has <, so that what follows > up to the next < is the text of an element
_PLAIN_VARIANT = rf"\s*+<tuv({_ANY})>\s*+<seg>([^<]*)</seg>\s*+</tuv>"
# White space before a unit is bounded: a search would try a longer run again from each of its characters. Repetitions
# are possessive, or end at a sign that they cannot take, so that a unit that does not match fails in one pass.
_PLAIN_UNIT = re.compile(
    rf"\s{{0,99}}+<tu(?:\s{_ANY})?>(?:\s*+<(prop|note)\b{_ANY}>[^<]*</\1>)*+{_PLAIN_VARIANT}{_PLAIN_VARIANT}\s*+</tu>"
)


def _hides_tags(text: str) -> bool:
    """Return whether a text may have tags that are none, in comments or CDATA sections."""
    return "<!--" in text or "<![CDATA" in text


def _marked(content: str) -> tuple[Marked, dict[str, tuple[str, ...]], frozenset[str]]:
    """A text with its tags, and those of them that are line breaks."""
    if "<" not in content:
        return Marked(unescape_xml(content)), {}, frozenset()
    builder = MarkedBuilder()
    marked_content(content, builder, lambda match: match["name"] in _PAIRED)
    return *builder.build(), frozenset(builder.breaks)


def _first(text: str, name: str, start: int, end: int) -> Element | None:
    return next(elements(text, name, start, end), None)


def _indent(text: str, start: int) -> str:
    """White space before an offset, with its line break."""
    begin = start
    while begin and text[begin - 1].isspace():
        begin -= 1
    return text[begin:start]


class _Exchange(DocumentFormat):
    """A format whose units have a source and perhaps a target."""

    is_xml = has_references = has_pairs = True
    names: tuple[str, ...]

    def stretches(self, chunks: Iterable[str]) -> Iterator[str]:
        """A translation unit each, with what precedes it."""
        return element_stretches(chunks, self.names)


class Tmx(_Exchange):
    """Translation memories: units without the target language get a variant of it, marked as machine translation."""

    suffixes = (".tmx",)
    root = "tmx"
    names = ("tu",)

    def __init__(self, options: DocumentOptions) -> None:
        super().__init__(options)
        self._hides = False  # the last stretch for pairs hides tags

    def _variants(self, stretch: str) -> tuple[re.Match[str] | None, re.Match[str] | None]:
        """The variants (`tuv`) of source and target in the unit that ends the stretch."""
        src = tgt = None
        for variant in _VARIANT.finditer(stretch):
            lang = attribute(variant["tag"] or "", "(?:xml:)?lang")
            if lang is not None and src is None and is_language(lang, self.options.src_lang):
                src = variant
            elif lang is not None and tgt is None and is_language(lang, self.options.tgt_lang):
                tgt = variant
        return src, tgt

    def units(self, stretch: str) -> list[TextUnit]:
        """The source of the unit, if it has no target."""
        variant, target = self._variants(stretch)
        if variant is None:
            return []
        source, tags, breaks = _marked(variant["content"])
        if not has_words(source.text):
            return []
        if target is not None:
            return [left_unit(_DONE, source)]
        lang = escape_xml(self.options.tgt_lang).replace('"', "&quot;")
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
                breaks=breaks,
                escape=escape_xml,
                in_place=False,
                before=before,
                after=after,
            )
        ]

    def pair_stretches(self, chunks: Iterable[str]) -> Iterator[str]:
        """Many units each, to the last end of one in a chunk."""
        rest = ""
        for chunk in chunks:
            rest += chunk
            self._hides = _hides_tags(rest)
            if self._hides:
                *units, rest = element_stretches([rest], self.names)
                yield "".join(units)
            elif end := rest.rfind("</tu>") + 1:
                yield rest[: end + 4]
                rest = rest[end + 4 :]
            if len(rest) > MAX_STRETCH:
                raise StretchError(0, f"a unit of more than {MAX_STRETCH >> 20} Mi characters; split the document")
        self._hides = _hides_tags(rest)
        yield rest

    def pairs(self, stretch: str, line: int) -> Iterator[tuple[int, str, str]]:
        """Source and target of each unit that has both.

        Units of two variants without tags in their texts, which most are, take one match each.
        """
        position = order = 0
        known_tags: tuple[str, str] = ("", "")
        for unit in () if self._hides else _PLAIN_UNIT.finditer(stretch):
            start, end = unit.span()
            if start > position:
                yield from self._pairs_of_units(stretch[position:start], line)
                line += stretch.count("\n", position, start)
            _, first_tag, first, second_tag, second = unit.groups()
            if first_tag != known_tags[0] or second_tag != known_tags[1]:  # of neighbouring units they are mostly equal
                known_tags = first_tag, second_tag
                order = _order(known_tags, self.options.src_lang, self.options.tgt_lang)
            if order:
                src, tgt = (first, second) if order > 0 else (second, first)
                yield line, unescape_xml(src) if "&" in src else src, unescape_xml(tgt) if "&" in tgt else tgt
            line += stretch.count("\n", start, end)
            position = end
        yield from self._pairs_of_units(stretch[position:], line)

    def _pairs_of_units(self, stretch: str, line: int) -> Iterator[tuple[int, str, str]]:
        """The pairs of units of any form, the first of which is in this line."""
        for unit in element_stretches([stretch], self.names):
            src, tgt = self._variants(unit)
            if src is not None and tgt is not None:
                yield line, _marked(src["content"])[0].text, _marked(tgt["content"])[0].text
            line += unit.count("\n")


@lru_cache(maxsize=1024)
def _order(tags: tuple[str, str], src_lang: str, tgt_lang: str) -> int:
    """1 if two variants with these attributes are source and target, -1 the other way round, otherwise 0."""
    langs = [attribute(tag, "(?:xml:)?lang") for tag in tags]
    is_src, is_tgt = ([lang is not None and is_language(lang, code) for lang in langs] for code in (src_lang, tgt_lang))
    if is_src[0]:
        return int(is_tgt[1])
    return -int(is_tgt[0] and is_src[1])


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

    suffixes = (".xliff", ".xlf")
    root = "xliff"
    names = ("trans-unit", "unit")

    def __init__(self, options: DocumentOptions) -> None:
        """Begin a document; a target language that is no language code is not written."""
        super().__init__(options)
        code = options.tgt_lang.replace("_", "-")
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

    def pairs(self, stretch: str, line: int) -> Iterator[tuple[int, str, str]]:
        """Sources and targets of the unit."""
        places = list(self._places(stretch, self._open))  # to the end, whatever the caller takes: it closes elements
        for _, source, target in places:
            texts = (each and stretch[each.content_start : each.content_end] for each in (source, target))
            src, tgt = (_marked(text or "")[0].text for text in texts)
            yield line, src, tgt

    def _text_units(self, stretch: str, around: _OpenElements) -> list[TextUnit]:
        units = []
        for part, source, target in self._places(stretch, around, with_excluded=True):
            new = self._units(stretch, part, source, target)
            for index, unit in enumerate(new):
                if around.undeclared is not None and self._tgt_lang is not None and not unit.left:
                    language = f' {_LANGUAGE[around.version][1]}="{self._tgt_lang}"'
                    new[index] = replace(unit, insertions=[*unit.insertions, (around.undeclared, language)])
                    around.undeclared = None
            if target is not None and around.version == "1":
                around.undeclared = None
            units += new
        return units

    def _places(
        self, stretch: str, around: _OpenElements, *, with_excluded: bool = False
    ) -> Iterator[tuple[Element | None, Element, Element | None]]:
        """Texts to translate: (the unit or segment, its source, its target); None for one that is excluded."""
        position = 0
        while (tag := TAG.search(stretch, position)) is not None:
            position = tag.end()
            if tag["name"] in self.names and not tag["close"]:
                unit = element_at(stretch, tag)
                position = unit.end
                if around.is_translated(tag[0]):
                    yield from self._places_of_unit(stretch, unit)
                elif with_excluded:
                    yield from ((None, source, None) for _, source, _ in self._places_of_unit(stretch, unit))
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

    def _units(self, stretch: str, part: Element | None, source: Element, target: Element | None) -> list[TextUnit]:
        """The texts of a unit or segment: those of the segments that its tool has divided it into, if there are any."""
        whole, tags, breaks = _marked(stretch[source.content_start : source.content_end])
        content = stretch[target.content_start : target.content_end].strip() if target is not None else ""
        words = TAG.sub("", content).strip()
        if not has_words(whole.text) and not has_words(words):
            return []
        if part is None:
            return [left_unit(_EXCLUDED, whole)]
        segmented = _first(stretch, "seg-source", source.end, part.content_end)
        segments = _segments(stretch, segmented or source)
        slots = _segments(stretch, target) if target is not None else []
        state = attribute(target.tag if target is not None else "", "state") or attribute(part.tag, "state") or ""
        is_open = state in _NEW and attribute(part.tag, "approved") != "yes"
        is_copy = is_open and content == stretch[source.content_start : source.content_end].strip()
        if slots and (segments or len(slots) == 1):
            pairs = _paired(stretch, segments, slots) if segments else [(source, slots[0])]
        elif not (is_copy or (is_open and not words)) and target is not None:
            return [left_unit(_UNSURE if is_open and state else _DONE, whole)]
        else:
            pairs = [(each, each) for each in segments] if segmented is not None else []
        is_first_version = _TRANS_UNIT.match(part.tag) is not None
        before, after = _target_tags(stretch, source, target, with_state=is_first_version)
        has_state = is_first_version or attribute(part.tag, "state") is not None
        unit = TextUnit(
            start=(segmented or source).end if target is None else target.start,
            end=(segmented or source).end if target is None else target.end,
            source=whole,
            tags=tags,
            breaks=breaks,
            escape=escape_xml,
            in_place=False,
            before=before,
            after=after,
            insertions=[] if has_state else [(part.content_start - 1, ' state="initial"')],
        )
        if not pairs:
            return [unit]
        frame = (target if slots else None) or segmented or source
        return _units_of_segments(stretch, unit, pairs, frame, copies=is_open)


def _target_tags(stretch: str, source: Element, target: Element | None, *, with_state: bool) -> tuple[str, str]:
    """The tags around a translation: those of its target, or else new ones below the source.

    Args:
        with_state: the opening tag says that the translation is a suggestion, instead of what it said before.
    """
    prefix = re.match(r"<([\w.-]+:)?", source.tag)
    name = f"{(prefix and prefix[1]) or ''}target"
    opening = f"{_indent(stretch, source.start)}<{name}"
    if target is not None:
        opening = target.tag.removesuffix(">").removesuffix("/").rstrip()  # with its attributes
    if with_state:
        opening = re.sub(r"""(?<!\s)\s++state(?:-qualifier)?\s*=\s*(?:"[^"]*"|'[^']*')""", "", opening)
        opening += ' state="needs-review-translation" state-qualifier="mt-suggestion"'
    return f"{opening}>", f"</{name}>"


def _segments(stretch: str, element: Element) -> list[Element]:
    """The elements `mrk` that a tool has divided a text into."""
    marks = elements(stretch, "mrk", element.content_start, element.content_end)
    return [mark for mark in marks if attribute(mark.tag, "mtype") == "seg"]


def _paired(
    stretch: str, segments: Sequence[Element], slots: Sequence[Element]
) -> list[tuple[Element | None, Element | None]]:
    """Segments of a source with their elements of the target, by its order, and then those that the target lacks.

    The last ones get a new element behind those of the target; one that belongs before others gets none.
    """
    sources = {attribute(each.tag, "mid"): each for each in segments}
    pairs: list[tuple[Element | None, Element | None]]
    pairs = [(sources.pop(attribute(each.tag, "mid"), None), each) for each in slots]
    end, gap, last = slots[-1].end, "", len(segments)
    while any(source for source, _ in pairs) and attribute(segments[last - 1].tag, "mid") in sources:
        last -= 1
    for index, segment in enumerate(segments):
        if index:
            gap = stretch[segments[index - 1].end : segment.start]
        if attribute(segment.tag, "mid") in sources:
            new = Element(end, end, end, end, f"{'' if gap.strip() else gap}{segment.tag}")
            pairs.append((segment, new if index >= last else None))
    return pairs


def _units_of_segments(
    stretch: str,
    whole: TextUnit,
    pairs: Sequence[tuple[Element | None, Element | None]],
    frame: Element,
    *,
    copies: bool,
) -> list[TextUnit]:
    """A text for each segment that has no translation yet; together they write the target.

    Args:
        whole: the unit, which says what stands around its text.
        pairs: the source of a segment, and the element whose content is that of the target; None: there is none.
        frame: the element with these, all of whose content around them is that of the target.
        copies: a segment that equals its source is no translation.
    """
    units: list[TextUnit] = []
    position, before, left = frame.content_start, whole.before, []
    for source, slot in pairs:
        content = stretch[slot.content_start : slot.content_end].strip() if slot is not None else ""
        if source is None:
            left += [] if content else [left_unit(_UNMATCHED)]
            continue
        raw = stretch[source.content_start : source.content_end]
        marked, tags, breaks = _marked(raw)
        is_text = has_words(marked.text)
        if slot is None or (content and not (slot is source or (copies and content == raw.strip()))):
            left += [left_unit(_LACKING if slot is None else _DONE, marked)] if is_text else []
            continue
        tag = re.sub(r"/>\Z", ">", slot.tag)
        prefix = re.search(r"</?([\w.-]+:)?", tag)
        before += f"{stretch[position : slot.start]}{tag}"
        after = f"</{(prefix and prefix[1]) or ''}mrk>"
        position = slot.end
        if not is_text:
            before += f"{raw}{after}"
            continue
        units.append(
            replace(
                whole,
                start=whole.start if not units else whole.end,
                source=marked,
                tags=tags,
                breaks=breaks,
                before=before,
                after=after,
                insertions=() if units else whole.insertions,
            )
        )
        before = ""
    if units:
        rest = f"{before}{stretch[position : frame.content_end]}"
        units[-1] = replace(units[-1], after=f"{units[-1].after}{rest}{whole.after}")
    return [*units, *left]
