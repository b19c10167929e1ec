"""Subtitles: SubRip and WebVTT. A sentence that runs through several cues is one text, divided among them again."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

from mtkit.documents.format import DocumentFormat, DocumentOptions
from mtkit.documents.markup import escape_xml
from mtkit.documents.unit import MarkedBuilder, StretchError, TextUnit

_TIME = re.compile(r"[ \t]*(?:\d+:)?\d+:\d\d[.,]\d{1,3}[ \t]*-->[ \t]*(?:\d+:)?\d+:\d\d[.,]\d{1,3}")
_NUMBER = re.compile(r"\d+")
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r|\Z)")
_TAG = re.compile(r"<(?P<close>/?)(?P<name>[A-Za-z]*)[^<>\n]*>|\{\\[^{}\n]*\}")
_COMPLETE = re.compile(r"[.!?…。！？♪\])\"'”»]\s*(?:<[^<>]*>\s*)*\Z")
_MAX_CUES = 4  # that are translated as one text


class Subtitles(DocumentFormat):
    """SubRip, or WebVTT with its references to characters."""

    suffixes = (".srt", ".vtt")

    def __init__(self, options: DocumentOptions) -> None:
        super().__init__(options)
        self.is_vtt = options.suffix == ".vtt"

    def guessed_languages(self) -> tuple[str, ...]:
        """The source language; WebVTT is UTF-8 always, as its standard says."""
        return () if self.is_vtt else (self.options.src_lang,)

    def units(self, stretch: str) -> list[TextUnit]:
        """The texts of the cues."""
        cues = list(_cues(stretch))
        if not cues and stretch.strip():
            raise StretchError(
                0, "no cue with a time line such as 00:00:01,000 --> 00:00:02,000; is this a subtitle file?"
            )
        escape = escape_xml if self.is_vtt else _escape_srt
        units: list[TextUnit] = []
        for lines in _groups(stretch, cues):
            builder, last = MarkedBuilder(), lines[0][0]
            for start, end in lines:
                if start > last:
                    builder.add(" ")
                    builder.empty(stretch[last:start], is_break=True)
                self._add(stretch[start:end], builder)
                last = end
            units += builder.units(lines[0][0], last, escape=escape, ordered=True)
        return units

    def _add(self, line: str, builder: MarkedBuilder) -> None:
        position = 0
        for tag in [*_TAG.finditer(line), None]:
            text = line[position : len(line) if tag is None else tag.start()]
            builder.add(html.unescape(text) if self.is_vtt else text)
            if tag is None:
                return
            position = tag.end()
            if not tag["name"]:
                builder.empty(tag[0])
            elif tag["close"]:
                builder.close(tag["name"], tag[0])
            else:
                builder.open(tag["name"], tag[0])


def _escape_srt(text: str) -> str:
    """Text as SubRip can have it, which knows no escapes: what would be a time line or a tag is written otherwise."""
    text = text.replace("-->", "->")
    return _TAG.sub(lambda tag: tag[0].replace("<", "‹").replace(">", "›").replace("{", "("), text)


def _cues(text: str) -> Iterator[list[tuple[int, int]]]:
    """The lines of text of each cue, (start, end); a cue ends at a blank line, or before the next one."""
    cue: list[tuple[int, int]] | None = None
    for line in _LINE.finditer(text):
        content = line[0].rstrip("\r\n")
        if _TIME.match(content):
            if cue and _NUMBER.fullmatch(text, *cue[-1]):  # of the cue that begins, with no blank line before
                cue.pop()
            if cue:
                yield cue
            cue = []
        elif cue is not None and content.strip():
            start = line.start() + len(content) - len(content.lstrip())
            cue.append((start, line.start() + len(content.rstrip())))
        elif cue is not None:
            if cue:
                yield cue
            cue = None
    if cue:
        yield cue


def _groups(text: str, cues: list[list[tuple[int, int]]]) -> Iterator[list[tuple[int, int]]]:
    """Lines that are one text: those of a speaker in a cue, and of the next cues until the sentence ends."""
    group: list[tuple[int, int]] = []
    num_cues = 0
    for cue in cues:
        for index, (start, end) in enumerate(cue):
            num_cues += not index
            is_complete = not group or _COMPLETE.search(text[group[-1][0] : group[-1][1]]) is not None
            is_new = text[start] in "-–—" or (not index and (num_cues > _MAX_CUES or is_complete))
            if group and is_new:
                yield group
                group, num_cues = [], 1
            group.append((start, end))
    if group:
        yield group
