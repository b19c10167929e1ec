"""PO files: messages without a translation get one, marked as fuzzy."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from mtkit.documents.format import DocumentFormat
from mtkit.documents.reading import split_stretches
from mtkit.documents.unit import StretchError, TextUnit, has_words, left_unit
from mtkit.text.marked import Marked

_STRINGS = r'(?:[ \t]*"(?:[^"\\\n]|\\.)*"[ \t]*(?:\r?\n|\Z))+'
_FIELD = re.compile(rf"[ \t]*(?P<name>msgctxt|msgid_plural|msgid|msgstr(?:\[\d+\])?)[ \t]*+(?P<strings>{_STRINGS})")
_COMMENT = re.compile(r"[ \t\r]*+(?:#[^\n]*)?(?:\n|\Z)")
_STRING = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
_FLAGS = re.compile(r"^#,", re.MULTILINE)
_FUZZY = re.compile(r"^#,[^\n]*\bfuzzy\b", re.MULTILINE)
_ESCAPE = re.compile(r"\\(?:(?P<octal>[0-7]{1,3})|x(?P<hex>[0-9A-Fa-f]{1,2})|(?P<sign>.))")
_BYTE = re.compile(r"(?<!\\)(?:\\\\)*\\[0-7x]")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_MAX_FORMS = 20  # Arabic has 6; each has the text of the message
_CHARSET = re.compile(rb"Content-Type:(?:(?!Content-Type:)[^\n])*?charset=([\w.:-]+)", re.IGNORECASE)
# an entry ends after its last msgstr, or the last line of an obsolete one, where a comment or another entry begins
_ENTRY_END = re.compile(
    r"""^[ \t]*+(?:msgstr(?:\[\d+\])?[ \t]*+"[^\n]*+\n(?:[ \t]*+(?:"[^\n]*+)?\r?\n)*+(?=[ \t]*+(?:\#|msgctxt|msgid))"""
    r"""|\#~[^\n]*+\n(?:[ \t]*+\r?\n)*+(?=[ \t]*+(?:\#(?!~)|msgctxt|msgid)))""",
    re.MULTILINE,
)


class Gettext(DocumentFormat):
    """PO files."""

    suffixes = (".po", ".pot")
    has_pairs = True

    def declared_encoding(self, head: bytes) -> str | None:
        """The character set of the header; None for the placeholder of a template."""
        match = _CHARSET.search(head)
        return None if match is None or match[1] == b"CHARSET" else match[1].decode("ascii")

    def stretches(self, chunks: Iterable[str]) -> Iterator[str]:
        """An entry each, with the comments before it and the blank lines after it."""
        return split_stretches(chunks, lambda text: (match.end() for match in _ENTRY_END.finditer(text)))

    def units(self, stretch: str) -> list[TextUnit]:
        """The message, for each of its forms that has no translation; none if it has any."""
        fields = _fields(stretch)
        forms = [name for name in fields if name.startswith("msgstr")]
        if "msgid" not in fields or not self._text(fields["msgid"]):
            return []
        if any(self._text(fields[name]) for name in forms):
            return [left_unit("translated already")]
        if not 0 < len(forms) <= _MAX_FORMS:
            reason = f"more than {_MAX_FORMS} plural forms" if forms else "a message without msgstr"
            raise StretchError(fields["msgid"].start(), reason)
        fuzzy: list[tuple[int, str]] = []  # the insertion that marks the entry
        if not _FUZZY.search(stretch) and (flags := _FLAGS.search(stretch)) is not None:
            fuzzy = [(flags.end(), " fuzzy,")]
        elif not _FUZZY.search(stretch):
            previous = re.search(r"^#\|", stretch, re.MULTILINE)
            first = min(match.start() for match in fields.values())
            fuzzy = [(first if previous is None else previous.start(), "#, fuzzy\n")]
        units: list[TextUnit] = []
        for name in forms:
            plural = name not in ("msgstr", "msgstr[0]")
            text = self._text(fields["msgid_plural" if plural and "msgid_plural" in fields else "msgid"])
            if has_words(text):
                strings = fields[name].span("strings")
                length = len(fields[name]["strings"].rstrip())
                units.append(
                    TextUnit(
                        start=strings[0],
                        end=strings[0] + length,
                        source=Marked(text),
                        escape=_quote,
                        in_place=False,
                        insertions=[] if units else fuzzy,
                    )
                )
        return units

    def pairs(self, stretch: str, line: int) -> Iterator[tuple[int, str, str]]:
        """The message and its translation, unless it is fuzzy; of plurals the first and the last form."""
        fields = _fields(stretch)
        if "msgid" not in fields or not self._text(fields["msgid"]) or _FUZZY.search(stretch):
            return
        forms = [name for name in fields if name.startswith("msgstr")]
        names = [("msgid", forms[0]), ("msgid_plural", forms[-1])] if forms else []
        for source, target in names:
            if source in fields:
                yield line, self._text(fields[source]), self._text(fields[target])

    def _text(self, field: re.Match[str]) -> str:
        """The text of a field, in which octal and hexadecimal escapes are bytes of the file's encoding.

        Raises:
            StretchError: these are none of the encoding.
        """
        strings: list[str] = _STRING.findall(field["strings"])
        if not any(map(_BYTE.search, strings)):
            return _ESCAPE.sub(lambda match: _ESCAPES.get(match["sign"], match["sign"]), "".join(strings))
        content = bytearray()
        for string in strings:
            position = 0
            for match in _ESCAPE.finditer(string):
                content += string[position : match.start()].encode(self.encoding)
                position = match.end()
                if match["sign"]:
                    content += _ESCAPES.get(match["sign"], match["sign"]).encode(self.encoding)
                else:
                    content.append((int(match["octal"], 8) if match["octal"] else int(match["hex"], 16)) & 0xFF)
            content += string[position:].encode(self.encoding)
        try:
            return content.decode(self.encoding)
        except UnicodeDecodeError as error:
            raise StretchError(field.start("strings"), f"an escape of bytes that are not {self.encoding}") from error


def _fields(entry: str) -> dict[str, re.Match[str]]:
    """The fields of an entry by their names.

    Raises:
        StretchError: a line is no field, string or comment.
    """
    fields, position = {}, 1 if entry.startswith("\ufeff") else 0
    while position < len(entry):
        match = _FIELD.match(entry, position) or _COMMENT.match(entry, position)
        if match is None:
            line = entry[position:].partition("\n")[0].strip()
            raise StretchError(position, f"not a line of a PO file: {line[:60]}")
        if match.re is _FIELD:
            if match["name"] in fields:
                raise StretchError(position, f"a second {match['name']} in an entry")
            fields[match["name"]] = match
        if match.end() == position:
            break
        position = match.end()
    return fields


def _quote(text: str) -> str:
    """The text as one string, or one a line after an empty one."""
    text = text.replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t").replace("\r", "\\r")
    lines = [f'"{line}"' for line in text.replace("\n", "\\n\n").split("\n") if line]
    return "\n".join(lines if len(lines) == 1 else ['""', *lines])
