"""Variants of form: lower case, title case, other quotation marks, no final stop; and lines in capitals.

Training on some variants (`tokenizer.robustness` in a recipe) makes a model read them. The target of a variant is the
target of its line, except for the final stop, since capitals and quotation marks follow rules of the target language.
Capitals need no training of their own: a line in capitals is translated in lower case, and its translation is written
in capitals. Its tokens would otherwise be few letters each, and rare ones.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from mtkit.text.spans import find_spans

MIN_CAPITALS = 5  # letters of a line in capitals; shorter lines, such as NATO, are mostly abbreviations

_WORD_START = re.compile(r"(?<![\w'’])[^\W\d_]")
_STRAIGHT = str.maketrans(dict.fromkeys("“”„‟«»", '"') | dict.fromkeys("‘’‚‛", "'"))
_STRAIGHT_QUOTE = re.compile(r"(?P<opening>(?<![^\s(\[])[\"'])|[\"']")
_STOPS = (".", "。", "।")


def pair_variant(src: str, tgt: str, bits: int) -> tuple[str, str]:
    """A variant of a sentence pair, or the pair if it has none.

    Args:
        bits: random bits, which choose among the variants that differ from the pair.
    """
    variants = [(form, tgt) for change in (_lower, _title, _other_quotes) if (form := change(src)) != src]
    if (src.endswith(_STOPS) and tgt.endswith(_STOPS)) and not (src.endswith("..") or tgt.endswith("..")):
        variants.append((src[:-1].rstrip(), tgt[:-1].rstrip()))
    return variants[bits % len(variants)] if variants else (src, tgt)


def is_in_capitals(line: str) -> bool:
    """Return whether a line has capitals alone, apart from what stays as it is, such as placeholders."""
    if sum(map(str.isupper, line)) < MIN_CAPITALS:
        return False
    text = _outside_spans(line, str, lambda span: "")
    return text.isupper() and sum(map(str.isupper, text)) >= MIN_CAPITALS


def lower_capitals(line: str) -> str:
    """A line in capitals as a sentence in lower case."""
    text = _lower(line)
    return text[:1].upper() + text[1:]


def to_capitals(line: str) -> str:
    """A translation in capitals, except for URLs, placeholders and others that stay as they are."""
    return _outside_spans(line, str.upper)


def _lower(line: str) -> str:
    return _outside_spans(line, str.lower)


def _title(line: str) -> str:
    return _outside_spans(line, lambda text: _WORD_START.sub(lambda match: match[0].upper(), text))


def _other_quotes(line: str) -> str:
    """Straight quotation marks and apostrophes for typographic ones, or else typographic ones for straight ones."""
    straight = _outside_spans(line, lambda text: text.translate(_STRAIGHT))
    return straight if straight != line else _STRAIGHT_QUOTE.sub(_typographic, line)


def _typographic(match: re.Match[str]) -> str:
    opening, closing = ("“", "”") if match[0] == '"' else ("‘", "’")
    return opening if match["opening"] else closing


def _outside_spans(line: str, change: Callable[[str], str], keep: Callable[[str], str] = str) -> str:
    parts, end = [], 0
    for span in find_spans(line):
        parts += [change(line[end : span.start]), keep(span.text)]
        end = span.end
    return "".join([*parts, change(line[end:])])
