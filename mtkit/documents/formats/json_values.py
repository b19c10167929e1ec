"""JSON: the strings that are values, of all keys or of those that are named."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from mtkit.documents.format import DocumentFormat
from mtkit.documents.reading import split_stretches
from mtkit.documents.unit import StretchError, TextUnit, has_words
from mtkit.text.marked import Marked

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]')
_STRING_OR_COMMENT = re.compile(r'("(?:[^"\\\n]|\\.)*"?)|//[^\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)
_STRING_OR_LAST_COMMA = re.compile(r'("(?:[^"\\\n]|\\.)*"?)|,(?=\s*[}\]])', re.DOTALL)
_LOCALE = re.compile(r'"@@locale"\s*:\s*("[^"\\]*")')
_LINE = re.compile("\n")
_SURROGATE = re.compile("[\ud800-\udfff]")


class JsonValues(DocumentFormat):
    """JSON documents, or JSON with comments and, then, commas after the last element; keys and everything else stay."""

    suffixes = (".json",)
    has_fields = True

    def units(self, stretch: str) -> list[TextUnit]:
        """The strings.

        Raises:
            StretchError: the text is not JSON, or has no key of a name that was given.
        """
        text = stretch.replace("\ufeff", " ", 1) if stretch.startswith("\ufeff") else stretch
        if _error(text) is not None:
            without = _STRING_OR_COMMENT.sub(_string_or_spaces, text)
            text = _STRING_OR_LAST_COMMA.sub(_string_or_spaces, without) if without != text else text
            if (error := _error(text)) is not None:
                raise error
        units: list[TextUnit] = []
        ensure_ascii = text.isascii() and "\\u" in stretch
        names: dict[str, None] = {}  # of all keys, in their order
        keys: list[str] = [""]  # of the objects and lists around the token
        is_object: list[bool] = [False]
        tokens = list(_TOKEN.finditer(text))
        for index, token in enumerate(tokens):
            if token[0] in "{[":
                keys.append(keys[-1])
                is_object.append(token[0] == "{")
            elif token[0] in "}]":
                keys.pop()
                is_object.pop()
            elif token[0].startswith('"'):
                value = json.loads(token[0])
                if is_object[-1] and index + 1 < len(tokens) and tokens[index + 1][0] == ":":
                    keys[-1] = value
                    names[value] = None
                elif has_words(value) and self._is_text(keys) and not _SURROGATE.search(value):
                    escape = partial(json.dumps, ensure_ascii=ensure_ascii)
                    units.append(TextUnit(start=token.start(), end=token.end(), source=Marked(value), escape=escape))
        if missing := [key for key in self.options.fields if key not in names]:
            known = ", ".join(map(repr, names))[:200] or "none"
            raise StretchError(0, f"no object has the key {missing[0]!r}; the keys are {known}")
        return units

    def _is_text(self, keys: Sequence[str]) -> bool:
        """Return whether a string may be a text, by the keys of the objects and lists around it, outermost first."""
        return not self.options.fields or keys[-1] in self.options.fields


class Arb(JsonValues):
    """Application resource bundles of Flutter: the messages; their metadata stay, and the locale becomes the target.

    https://github.com/google/app-resource-bundle/wiki/ApplicationResourceBundleSpecification
    """

    suffixes = (".arb",)
    has_fields = False

    def units(self, stretch: str) -> list[TextUnit]:
        """The messages, and the locale; errors as those of JSON."""
        units = super().units(stretch)
        if (locale := _LOCALE.search(stretch)) is not None and self.options.tgt_lang:
            code = json.dumps(self.options.tgt_lang.replace("-", "_"))
            start, end = locale.span(1)
            units.append(TextUnit(start=start, end=end, source=Marked(""), before=code, in_place=False))
        return units

    def _is_text(self, keys: Sequence[str]) -> bool:
        return len(keys) == 2 and not keys[-1].startswith("@")


class JsonLines(DocumentFormat):
    """Lines of JSON, each an object with both sides, also in an object `translation`, as in data sets of Hugging Face.

    The keys are those of `side_names`.
    """

    suffixes = (".jsonl", ".ndjson")
    has_texts = False
    has_pairs = has_columns = True

    def stretches(self, chunks: Iterable[str]) -> Iterator[str]:
        """A line each."""
        return split_stretches(chunks, lambda text: (match.end() for match in _LINE.finditer(text)))

    def pairs(self, stretch: str, line: int) -> Iterator[tuple[int, str, str]]:
        """The pair of the next line; null is an empty side."""
        text = stretch.strip().removeprefix("\ufeff")
        if not text:
            return
        if (error := _error(text)) is not None:
            raise error
        value = json.loads(text)
        inner = value.get("translation", value) if isinstance(value, dict) else value
        value = inner if isinstance(inner, dict) else value
        names = self.options.side_names
        keys = next((each for each in names if isinstance(value, dict) and {*each} <= value.keys()), None)
        if keys is None:
            wanted = " and ".join(names[-1])
            raise StretchError(0, f"no object with the keys {wanted}, or src and tgt; name others: FILE#SRC,TGT")
        for key in keys:
            if not isinstance(value[key], str | None):
                raise StretchError(0, f"{key}: {json.dumps(value[key])[:60]} is no text")
        source, target = (_SURROGATE.sub("\ufffd", value[key] or "") for key in keys)
        yield line, source, target


def _string_or_spaces(match: re.Match[str]) -> str:
    return match[1] or " " * len(match[0])


def _error(text: str) -> StretchError | None:
    """Error that says why a text is no JSON; None if it is."""
    try:
        json.loads(text, parse_int=str, parse_float=str)
    except RecursionError:
        return StretchError(0, "JSON that is nested too deeply")
    except json.JSONDecodeError as error:
        return StretchError(error.pos, f"not JSON: {error.msg[0].lower()}{error.msg[1:]}")
    return None
