"""Copy tokens: reserved tokens for spans that a translation keeps, such as URLs and numbers.

A span of the source becomes the token of its number: the first span of a line is copy 0, the next other one copy 1. In
training, a span that both sides have becomes the same token on both sides, and all others stay text, so that a model
learns to put copies where their spans belong. In translation every span of the source is a copy, and each copy in the
translation becomes the text of its span. The placeholders of Luong et al. 2015, sec. 3.1, are the same for unknown
words, https://aclanthology.org/P15-1002/ .

A number whose separators differ between the languages, as 1,250.50 and 1.250,50, is a second token on the target side:
the model learns when to write a number in the form of its language. Text beside a copy is separated by a space; the
joint token, which is on both sides of `(<copy>)`, stands for no space.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from mtkit.text.normalise import SPACE_MARK
from mtkit.text.spans import Span, find_spans
from mtkit.text.subword.tokenizer import Tokenizer
from mtkit.text.vocab import spare_token

COPY_VERSION = "copies-1"  # of these rules, which determine the ids of a text
NUM_COPIES = 14  # of a line; further spans stay text
MIN_DIGITS = 2  # smaller numbers are often words in a translation
_JOINT = spare_token(2 * NUM_COPIES)
_INSIDE_WORD = re.compile("(?<=[0-9A-Za-z])(?=[0-9A-Za-z])")
_SWAP = str.maketrans(".,", ",.")


class Place(NamedTuple):
    """Characters of a line that a copy token stands for; `is_swapped`: with the other separators."""

    start: int
    end: int
    number: int
    is_swapped: bool = False


def copied_spans(text: str) -> list[Span]:
    """The spans of a source that are copies, in order; equal ones are the same copy."""
    spans = [s for s in find_spans(text) if not s.is_number or sum(map(str.isdigit, s.text)) >= MIN_DIGITS]
    allowed = list(dict.fromkeys(span.text for span in spans))[:NUM_COPIES]
    return [span for span in spans if span.text in allowed]


def copied_texts(text: str) -> list[str]:
    """The texts of the copies of a source by their numbers."""
    return list(dict.fromkeys(span.text for span in copied_spans(text)))


def source_places(src: str) -> list[Place]:
    """The copies of a source that is translated."""
    spans = copied_spans(src)
    numbers = {text: number for number, text in enumerate(dict.fromkeys(span.text for span in spans))}
    return [Place(span.start, span.end, numbers[span.text]) for span in spans]


def pair_places(src: str, tgt: str) -> tuple[list[Place], list[Place]]:
    """The copies of both sides of a training pair: spans that occur equally often on both sides."""
    spans = copied_spans(src)
    if not spans:
        return [], []
    of_tgt = [span for span in find_spans(tgt) if span.is_number]
    src_places: list[Place] = []
    tgt_places: list[Place] = []
    for text in dict.fromkeys(span.text for span in spans):
        here = [span for span in spans if span.text == text]
        if here[0].is_number:
            swapped = text.translate(_SWAP)
            there = [(s.start, s.end, s.text != text) for s in of_tgt if s.text in (text, swapped)]
        else:
            there = [
                (*match.span(), False)
                for match in re.finditer(re.escape(text), tgt)
                if not any(_INSIDE_WORD.match(tgt, offset) for offset in match.span())
            ]
        is_free = all(end <= p.start or p.end <= start for start, end, _ in there for p in tgt_places)
        if len(there) == len(here) and is_free:
            number = len({place.number for place in src_places})
            src_places += [Place(span.start, span.end, number) for span in here]
            tgt_places += [Place(start, end, number, is_swapped) for start, end, is_swapped in there]
    return sorted(src_places), sorted(tgt_places)


class CopyTokens:
    """The copy tokens of a tokenizer, which are some of its reserved tokens.

    Attributes:
        copies: the number of each copy token and whether separators are swapped, by id.
        joint: id of the token for no space beside a copy.
        ids: of all tokens of copies.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        ids = [tokenizer.token_to_id(spare_token(number)) for number in range(2 * NUM_COPIES)]
        self.copies = {token_id: (i % NUM_COPIES, i >= NUM_COPIES) for i, token_id in enumerate(ids)}
        self.joint = tokenizer.token_to_id(_JOINT)
        self.ids = frozenset((*ids, self.joint))

    def encode(self, lines: Sequence[str], places: Sequence[Sequence[Place]], *, threads: int = 1) -> list[list[int]]:
        """The ids of lines with copy tokens in places."""
        token_of = {copy: token_id for token_id, copy in self.copies.items()}
        parts = [_parts(line, of_line) for line, of_line in zip(lines, places, strict=True)]
        texts = [part for each in parts for part in each if isinstance(part, str)]
        text_ids = iter(self.tokenizer.encode(texts, threads=threads))
        encoded = []
        for each in parts:
            ids: list[int] = []
            for part in each:
                if isinstance(part, str):
                    ids += next(text_ids)
                else:
                    ids.append(self.joint if part is None else token_of[part.number, part.is_swapped])
            encoded.append(ids)
        return encoded

    def decode(self, ids: Sequence[int], texts: Sequence[str]) -> str:
        """The text of ids, with the texts of the copies by their numbers; copies without a text are dropped."""
        parts: list[str] = []
        run: list[int] = []
        is_joined = True

        def add(text: str) -> None:
            nonlocal is_joined
            parts.append(text if is_joined else f" {text}")
            is_joined = False

        for token_id in (*ids, None):
            copy = self.copies.get(-1 if token_id is None else token_id)
            if token_id is not None and copy is None and token_id != self.joint:
                run.append(token_id)
                continue
            if run:
                add(self.tokenizer.decode([run])[0])
                run = []
            if copy is not None and (text := _text_of(copy, texts)):
                add(text)
            is_joined |= token_id == self.joint
        return "".join(parts)

    def surfaces(self, ids: Sequence[int], texts: Sequence[str], tokens: Sequence[str]) -> list[str]:
        """The text of each token, with U+2581 for a space; copies have that of their spans.

        Args:
            ids: of a line.
            texts: of the copies by their numbers.
            tokens: of the ids, as strings.
        """
        surfaces: list[str] = []
        is_joined, begins = False, False  # the mark before the first word stays
        for token_id, token in zip(ids, tokens, strict=True):
            copy, surface = self.copies.get(token_id), token
            if copy is not None:
                text = _text_of(copy, texts)
                surface = text if is_joined or not surfaces or not text else f"{SPACE_MARK}{text}"
            elif token_id == self.joint:
                surface = ""
            elif begins:
                surface = ("" if is_joined else SPACE_MARK) + token.removeprefix(SPACE_MARK)
            begins = copy is not None or token_id == self.joint
            is_joined = token_id == self.joint
            surfaces.append(surface)
        return surfaces


def _text_of(copy: tuple[int, bool], texts: Sequence[str]) -> str:
    number, is_swapped = copy
    text = texts[number] if number < len(texts) else ""
    return text.translate(_SWAP) if is_swapped else text


def _parts(line: str, places: Sequence[Place]) -> list[str | Place | None]:
    """Text, copies, and None for a joint, of a line; a space beside a copy is no part of the text."""
    parts: list[str | Place | None] = []
    end = 0
    for place in (*places, None):
        text = line[end : None if place is None else place.start]
        is_after_copy, is_before_copy = end > 0, place is not None
        if is_after_copy and is_before_copy and text in ("", " "):
            parts += [] if text else [None]
        elif text:
            if is_after_copy and not text.startswith(" "):
                parts.append(None)
            inner = text[is_after_copy and text.startswith(" ") : len(text) - (is_before_copy and text.endswith(" "))]
            parts += [inner] if inner else []
            if is_before_copy and not text.endswith(" "):
                parts.append(None)
        if place is not None:
            parts.append(place)
            end = place.end
    return parts
