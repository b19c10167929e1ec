"""Spans that a translation must contain as they are, comparison of numbers, and variants of the text outside spans.

Variants of form are lower case, title case, other quotation marks and no final stop. Training on some of them
(`tokenizer.robustness` in a recipe) makes a model read them. The target of a variant is the target of its line, except
for the final stop, since capitals and quotation marks follow rules of the target language. Capitals need no training of
their own: a line in capitals is translated in lower case, and its translation is written in capitals. Its tokens would
otherwise be few letters each, and rare ones.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple


class Span(NamedTuple):
    """A stretch of a text that a translation keeps: the characters from `start` to `end`."""

    start: int
    end: int
    text: str
    is_number: bool = False


_EMOJI = "\u231a-\u27bf\u2b00-\u2bff\U0001f000-\U0001faff"
_ROLE = r":[A-Za-z][\w.+:-]{0,60}:"  # of reStructuredText
# The alternatives in order: URL, e-mail, code in backticks with its role, placeholders in braces, of printf, Python and
# Ruby, between signs and of shells, templates, markup, long options, names with underscores or parentheses, paths,
# numbers with their separators, emoji.
_SPAN = re.compile(
    r"(?P<url>(?<![A-Za-z\d+.-])(?:[A-Za-z][A-Za-z\d+.-]{0,20}://|(?i:mailto|tel|sms|urn|magnet):(?=[\w+?])|(?i:www)\.)"
    r"[^\s<>\"“”«»「」、。]+)"
    r"|(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+"
    rf"|(?:{_ROLE})?(?:``[^`\n]{{1,200}}``|`[^`\n]{{1,200}}`(?:{_ROLE}|__?(?!\w))?)"
    r"|\$?\{{1,3}[^{}\n]{0,100}\}{1,3}"
    r"|(?<![\w%])%(?:\(\w+\)|<\w+>|\d+\$)?[-+#0]*\d*(?:\.\d+)?(?:hh?|ll?|[Lzjt])?[sdiufFeEgGxXocn@](?![A-Za-z])"
    r"|(?<![\w%])%[A-Za-z_]\w*%(?!\w)|(?<![\w$])\$[A-Za-z_]\w*(?:\$|\([^()\n]{0,100}\))?"
    r"|(?<!\w)__(?:MSG_\w{1,60}?|[A-Z][A-Z\d_]{0,60}?)__(?!\w)"
    r"|<(?P<template>[%?]).{0,200}?(?P=template)>"
    r"|</?[A-Za-z][^<>\n]{0,200}>"
    r"|(?<![\w-])--[A-Za-z][\w-]+"
    r"|(?<![A-Za-z.])[A-Za-z_][\w.]{0,60}\(\)|(?<![A-Za-z_])[A-Za-z]\w{0,60}?_\w+"
    r"|(?<![\w/.])(?:~|\.{1,2})?/[\w.+-]+(?:/[\w.+-]*)+"
    r"|(?P<number>(?<![\w])[+-]?\d+(?:[.,:/'’-]\d+)*|\d+(?:[.,:/'’-]\d+)*)"
    rf"|[{_EMOJI}][\ufe0f\u200d\U0001f3fb-\U0001f3ff{_EMOJI}]*",
    re.ASCII,
)
_MAY_HAVE_SPANS = re.compile(rf"[\d@`{{%<_/$:]|--|(?i:www)\.|\(\)|[{_EMOJI}]|[^\x00-\u024f\u1e00-\u206f]")
_TRAILING = ".,;:!?)]}'’"  # of a URL, where it belongs to the sentence
_TOUCHING = "*_^|\\~=+#@&$%§/"  # signs that belong to the span that they touch
# whole words that no translator changes, beside spans: files, hosts, versions, colours, references, times, identifiers,
# names of people and emoji between signs, other placeholders
_CODE = re.compile(
    r"(?<!\S)(?:[A-Za-z]:\\\S*|[\w~./\\-]*[\w-]\.[A-Za-z]\w{0,9}|v\d[\w.+-]*|#[0-9A-Fa-f]{3,8}|@?:[A-Za-z_][\w.-]*:?"
    r"|@[A-Za-z][\w./:-]*|%L?\d+|[\w-]+(?:\.[\w-]+)+/\S*|0x[0-9A-Fa-f]+|U\+[0-9A-F]{4,6}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
    r"|[0-9a-f]{32,64}|\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:?\d\d)?|\d+(?:\.\d+)+[-+][\w.+-]+)(?!\S)"
    r"|&#?\w{1,32};",
    re.ASCII,
)
_MESSAGE = re.compile(r"\{\s*[\w.-]+\s*,\s*(?:plural|select|selectordinal|choice)\s*,")
_PLAIN_WORD = re.compile(r"\s*[^\W\d_]+[.,]?(?:\s|\Z)")  # at the beginning of a text, where no span is
# a number may be a part of a word, and what looks like a tag may be a text in angle brackets
_TAGS = "a|abbr|b|br|code|div|em|h[1-6]|hr|i|img|input|kbd|li|ol|p|pre|q|s|small|span|strong|su[bp]|t[dhr]|u|ul|wbr"
_MAY_BE_TEXT = re.compile(rf"(?i:<(?!(?:{_TAGS})>)[a-z]+>)")
_SCRIPTS = (
    "A-Za-z\u00c0-\u024f\u1e00-\u1eff",
    "\u0370-\u03ff",
    "\u0400-\u052f",
    "\u0590-\u05ff",
    "\u0600-\u08ff",
    "\u0900-\u0dff",
    "\u0e00-\u0eff",
    "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\U00020000-\U0003ffff",
)
# compiled when the first text that is not ASCII is read
_WORDS = tuple(f"[{letters}](?:['’.-]?[{letters}])*" for letters in _SCRIPTS)
_DIGITS = re.compile("[0-9]+")
_GROUP_SPACE = re.compile("(?<=[0-9])[ \xa0\u202f\u2009](?=[0-9]{3}(?![0-9]))")

MIN_CAPITALS = 5  # letters of a line in capitals; shorter lines, such as NATO, are mostly abbreviations

_WORD_START = re.compile(r"(?<![\w'’])[^\W\d_]")
_STRAIGHT = str.maketrans(dict.fromkeys("“”„‟«»", '"') | dict.fromkeys("‘’‚‛", "'"))
_STRAIGHT_QUOTE = re.compile(r"(?P<opening>(?<![^\s(\[])[\"'])|[\"']")
_TYPOGRAPHIC = {'"': "“”", "'": "‘’"}
_STOPS = (".", "。", "।")
FIRST_KANA = "\u3040"  # from here to Hangul scripts are mostly written without spaces


def find_spans(text: str) -> list[Span]:
    """Spans of a text in order: URLs, addresses, code, placeholders, markup, numbers, emoji, words of other scripts.

    A word is of another script if most letters of the text are of one script, and its letters are not.
    """
    if not _MAY_HAVE_SPANS.search(text):
        return []
    spans: list[Span] = []
    for match in _SPAN.finditer(text):
        found = match[0]
        if match["url"] is not None:
            has_bracket, end = "(" in found, len(found)
            while found[end - 1] in _TRAILING and not (found[end - 1] == ")" and has_bracket):
                end -= 1
            found = found[:end]
        elif "/" in found and match["number"] is None and found[-1] == ".":  # a path at the end of a sentence
            found = found.rstrip(".")
        spans.append(Span(match.start(), match.start() + len(found), found, match["number"] is not None))
    foreign_words = _foreign_words(text, spans)
    # signs belong to the span that they touch; tags and emoji stand beside words, and numbers have signs of words
    last = 0
    for index, span in enumerate(spans):
        start, end = span.start, span.end
        limit = spans[index + 1].start if index + 1 < len(spans) else len(text)
        if not span.is_number and span.text[0].isascii() and span.text[0] != "<":
            while start > last and text[start - 1] in _TOUCHING:
                start -= 1
            while end < limit and text[end] in _TOUCHING:
                end += 1
        spans[index] = Span(start, end, text[start:end], span.is_number)
        last = end
    return sorted([*spans, *foreign_words])


def needs_translation(text: str) -> bool:
    """Return whether a text has a letter outside of URLs, addresses, placeholders, code and the like."""
    if not any(map(str.isalpha, text)):
        return False
    if text.isascii() and _PLAIN_WORD.match(text):
        return True
    parts, end = [], 0
    for span in find_spans(text):
        if not (span.is_number or _MAY_BE_TEXT.fullmatch(span.text)):
            parts.append(text[end : span.start])
            end = span.end
    rest = "".join([*parts, text[end:]])
    return any(map(str.isalpha, _CODE.sub("", rest)))


def begins_message(text: str) -> bool:
    """Return whether a text has what begins an argument with branches of an ICU message."""
    return "{" in text and _MESSAGE.search(text) is not None


def _foreign_words(text: str, taken: list[Span]) -> list[Span]:
    """The words of at least two letters of other scripts than that of most letters."""
    if text.isascii():
        return []
    words = [list(re.finditer(pattern, text)) for pattern in _WORDS]
    sizes = [sum(map(len, (match[0] for match in matches))) for matches in words]
    most = max(range(len(sizes)), key=sizes.__getitem__)
    starts = [span.start for span in taken]
    others = [match for script, matches in enumerate(words) if script != most for match in matches]
    return [
        Span(match.start(), match.end(), match[0])
        for match in others
        if len(match[0]) > 1
        and not any(match.start() < span.end for span in taken[: bisect_right(starts, match.end() - 1)][-1:])
    ]


def is_spaced(char: str) -> bool:
    """Return whether a character is a letter or digit of a script with spaces between words."""
    return char.isalnum() and char < FIRST_KANA


def missing_spans(spans: Sequence[Span], hyp: str) -> list[Span]:
    """The spans that a translation lacks; numbers may have other separators, as 1,250.50 and 1.250,50."""
    if not spans:
        return []
    numbers = number_counts(hyp)
    lacking, used = [], Counter[str]()
    for span in spans:
        if span.is_number:
            key = _number(span.text)
            numbers[key] -= 1
            is_there = numbers[key] >= 0
        else:
            used[span.text] += 1
            is_there = hyp.count(span.text) >= used[span.text]
        if not is_there:
            lacking.append(span)
    return lacking


def has_added_numbers(src: str, hyp: str) -> bool:
    """Return whether a translation has a number that its source lacks, in digits."""
    return _DIGITS.search(hyp) is not None and bool(number_counts(hyp) - number_counts(src))


def number_counts(text: str) -> Counter[str]:
    """The numbers of a text, whatever their separators: how often each sequence of digits occurs.

    The parts of dates and times may have another order.
    """
    text = _GROUP_SPACE.sub("", text) if _DIGITS.search(text) else ""
    return Counter(_number(span.text) for span in find_spans(text) if span.is_number)


def _number(text: str) -> str:
    parts = _DIGITS.findall(text)
    is_date = len(parts) == 3 and all(len(part) in (1, 2, 4) for part in parts)
    return " ".join(sorted(part.lstrip("0") for part in parts)) if is_date else "".join(parts)


def pair_variant(src: str, tgt: str, bits: int) -> tuple[str, str]:
    """A variant of a sentence pair, or the pair if it has none.

    Args:
        bits: random bits, which choose among the variants that differ from the pair.
    """
    lower = _outside_spans(src, str.lower)
    title = _outside_spans(src, lambda text: _WORD_START.sub(lambda match: match[0].upper(), text))
    quoted = _outside_spans(src, lambda text: text.translate(_STRAIGHT))
    if quoted == src:  # no typographic quotation marks and apostrophes: straight ones become such
        quoted = _STRAIGHT_QUOTE.sub(lambda match: _TYPOGRAPHIC[match[0]][match["opening"] is None], src)
    variants = [(form, tgt) for form in (lower, title, quoted) if form != src]
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
    text = _outside_spans(line, str.lower)
    return text[:1].upper() + text[1:]


def to_capitals(line: str) -> str:
    """A translation in capitals, except for URLs, placeholders and others that stay as they are."""
    return _outside_spans(line, str.upper)


def _outside_spans(line: str, change: Callable[[str], str], keep: Callable[[str], str] = str) -> str:
    parts, end = [], 0
    for span in find_spans(line):
        parts += [change(line[end : span.start]), keep(span.text)]
        end = span.end
    return "".join([*parts, change(line[end:])])
