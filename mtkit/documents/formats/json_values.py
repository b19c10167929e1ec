"""JSON: the strings that are values, of all keys or of those that are named."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from mtkit.documents.reading import WholeText
from mtkit.documents.unit import StretchError, TextUnit, has_words
from mtkit.text.structure.marked import Marked

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]')
_SURROGATE = re.compile("[\ud800-\udfff]")


class JsonValues(WholeText):
    """JSON documents; keys and everything else stay."""

    def __init__(self, *, keys: Sequence[str] = ()) -> None:
        self._keys = keys

    def units(self, stretch: str) -> list[TextUnit]:
        """The strings.

        Raises:
            StretchError: the text is not JSON, or has no key of a name that was given.
        """
        text = stretch.removeprefix("\ufeff")
        try:
            json.loads(text, parse_int=str, parse_float=str)
        except RecursionError as error:
            raise StretchError(0, "JSON that is nested too deeply") from error
        except json.JSONDecodeError as error:
            raise StretchError(error.pos, f"not JSON: {error.msg[0].lower()}{error.msg[1:]}") from error
        units, is_ascii = [], stretch.isascii()
        names: dict[str, None] = {}  # of all keys, in their order
        keys: list[str] = [""]  # of the objects and lists around the token
        is_object: list[bool] = [False]
        tokens = list(_TOKEN.finditer(stretch))
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
                elif has_words(value) and (not self._keys or keys[-1] in self._keys) and not _SURROGATE.search(value):
                    units.append(_unit(token, value, ensure_ascii=is_ascii and "\\u" in stretch))
        if missing := [key for key in self._keys if key not in names]:
            known = ", ".join(map(repr, names))[:200] or "none"
            raise StretchError(0, f"no object has the key {missing[0]!r}; the keys are {known}")
        return units


def _unit(token: re.Match[str], value: str, *, ensure_ascii: bool) -> TextUnit:
    return TextUnit(
        start=token.start(),
        end=token.end(),
        source=Marked(value),
        escape=lambda text: json.dumps(text, ensure_ascii=ensure_ascii),
    )
