"""SubStation Alpha subtitles: the texts of the dialogue. http://www.tcax.org/docs/ass-specs.htm"""

from __future__ import annotations

import re

from mtkit.documents.format import DocumentFormat
from mtkit.documents.unit import MarkedBuilder, StretchError, TextUnit

_LINE = re.compile(r"[ \t]*(?P<name>[^:\r\n]*?)[ \t]*:[ \t]*(?P<value>[^\r\n]*)|[ \t]*\[(?P<section>[^\]\r\n]*)\]")
_TAG = re.compile(r"\{[^{}]*\}|\\[Nn]")
_DRAWING = re.compile(r"\{[^{}]*\\p[1-9]")  # its text is a path of vectors
_ESCAPE = re.compile(r"\\(?=[Nnh{}])")


class SubStation(DocumentFormat):
    """Dialogues; styles, comments and override codes stay. A line is a text, of which line breaks are marks."""

    suffixes = (".ass", ".ssa")

    def guessed_languages(self) -> tuple[str, ...]:
        """The source language."""
        return (self.options.src_lang,)

    def units(self, stretch: str) -> list[TextUnit]:
        """The texts of the dialogues, which are their last fields."""
        units: list[TextUnit] = []
        section, columns = "", 0
        for line in _LINE.finditer(stretch):
            name = (line["name"] or "").lower()
            if line["section"] is not None:
                section, columns = line["section"].lower(), 0
            elif section == "events" and name == "format":
                columns = line["value"].count(",") + 1
            elif section == "events" and name == "dialogue":
                if not columns:
                    raise StretchError(line.start(), "a dialogue before the line Format: of its section")
                fields = line["value"].split(",", columns - 1)
                if len(fields) < columns:
                    raise StretchError(line.start(), f"a dialogue of {len(fields)} fields, where Format: has {columns}")
                units += _units(fields[-1], line.end() - len(fields[-1]))
        if not units and stretch.strip() and "[events]" not in stretch.lower():
            raise StretchError(0, "no section [Events]; is this a subtitle file?")
        return units


def _units(text: str, start: int) -> list[TextUnit]:
    builder, position = MarkedBuilder(), 0
    for tag in _TAG.finditer(text):
        builder.add(text[position : tag.start()].replace(r"\h", "\u00a0"))
        position = tag.end()
        is_break = tag[0][0] == "\\"
        builder.add(" " * is_break)
        builder.empty(tag[0], is_break=is_break)
    builder.add(text[position:].replace(r"\h", "\u00a0"))
    return [] if _DRAWING.search(text) else builder.units(start, start + len(text), escape=_escape, ordered=True)


def _escape(text: str) -> str:
    """Text without braces, which begin override codes and have no escape, and with hard spaces as codes."""
    text = text.translate(str.maketrans("{}", "()")).replace("\n", " ")
    return _ESCAPE.sub("\\\\\u2060", text).replace("\u00a0", r"\h")
