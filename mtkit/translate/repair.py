"""Repair of translations: terms of a glossary and spans that are missing, and flags.

A line whose translation lacks spans is translated once more without them, and they are put behind the words that they
follow (removal.py). Missing terms, and spans if this has a place for none, take the place of the words that attend to
their source, so that nothing is appended and the rest of the translation stays. To force a term by a prefix and to
search on from there is worse: the words behind it change too, and some are repeated or lost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from mtkit.text.spans import Span, find_spans, has_added_numbers, missing_spans
from mtkit.text.tokenizer import TokenizerPair
from mtkit.translate.alignment import Aligned, Replacement
from mtkit.translate.glossary import Glossary, Term, honoured_form
from mtkit.translate.removal import Removal, may_be_word
from mtkit.translate.segments import Segment

MAX_ROUNDS = 2  # of translation without spans; the second one leaves out what the first one lost


class Repair:
    """Repairs the best translation of segments, and flags all of them."""

    def __init__(
        self,
        tokenizers: TokenizerPair,
        glossary: Glossary | None,
        *,
        restores: bool,
        translate: Callable[[Sequence[Segment]], None],
        attend: Callable[[Sequence[Segment]], list[Any]],
    ) -> None:
        """Take the parts.

        Args:
            tokenizers: of both sides.
            glossary: terms; None: there are none.
            restores: whether missing spans are put back; otherwise they are only flagged.
            translate: adds hypotheses with texts to segments, none if it fails.
            attend: returns the attention [T, S] of the best hypothesis of each segment, None where there is none.
        """
        self._tokenizers, self._glossary, self._restores = tokenizers, glossary, restores
        self._translate, self._attend = translate, attend

    def __call__(self, segments: Sequence[Segment]) -> None:
        """Put missing spans and terms into the best texts, and flag what is not as it should be."""
        terms: dict[int, list[Term]] = {}
        wanted: dict[int, list[Span]] = {}
        for s in segments:
            found = terms[s.number] = self._glossary.find(s.text) if self._glossary else []
            wanted[s.number] = [  # except spans that overlap a term, whose translation the glossary states
                span for span in find_spans(s.text) if not any(t.start < span.end and span.start < t.end for t in found)
            ]
        if self._restores:
            read_without = [s for s in segments if s.removal is not None]
            for segment, restored in zip(read_without, self._put_back(read_without), strict=True):
                vars(segment).update(vars(restored or segment))
            self._translate_without_spans([s for s in segments if wanted[s.number]], wanted)
        lacking: dict[int, list[Span]] = {}  # terms without an allowed form, and missing spans
        for s in segments:
            hyp = s.hypotheses[0].text
            unmet = [Span(t.start, t.end, t.forms[0]) for t in terms[s.number] if honoured_form(t, hyp) is None]
            lacking[s.number] = [*unmet, *(restorable(s.text, wanted[s.number], hyp) if self._restores else [])]
        is_whole = {s.number for s in segments if s.removal is None or s.spelled}
        repaired = [s for s in segments if lacking[s.number] and s.number in is_whole]
        for segment, aligned in zip(repaired, self._align(repaired), strict=True):
            if aligned is not None:
                hyp, segment.replaced = restore(segment.text, lacking[segment.number], aligned)
                segment.hypotheses[0] = replace(segment.hypotheses[0], text=hyp)
        for segment in segments:
            hyp, of_line = segment.hypotheses[0].text, terms[segment.number]
            segment.terms = tuple((segment.text[t.start : t.end], honoured_form(t, hyp) or "") for t in of_line)
            segment.lacks = [_flags(segment.text, wanted[segment.number], of_line, h.text) for h in segment.hypotheses]
            segment.flags = (*segment.flags, *segment.lacks[0])

    def _translate_without_spans(self, segments: Sequence[Segment], wanted: dict[int, list[Span]]) -> None:
        """Translate segments that lack spans without these, and keep the translations that lack fewer then."""
        removed = {s.number: {*restorable(s.text, wanted[s.number], s.hypotheses[0].text)} for s in segments}
        segments = [s for s in segments if removed[s.number]]
        for _ in range(MAX_ROUNDS):
            if not segments:
                break
            removals = [Removal.of(s.text, removed[s.number]) for s in segments]
            ids = self._tokenizers.read("src", [removal.rest for removal in removals])
            trials = [
                replace(s, ids=rest_ids, removal=removal, spelled=None, hypotheses=[])
                for s, removal, rest_ids in zip(segments, removals, ids, strict=True)
            ]
            self._translate([trial for trial, removal in zip(trials, removals, strict=True) if removal.has_words])
            good = [t for t in trials if t.hypotheses and not has_loop(t.hypotheses[0].tokens, t.ids)]
            restored = dict(zip((t.number for t in good), self._put_back(good), strict=True))
            lost_more = []
            for segment in segments:
                spans, trial = wanted[segment.number], restored.get(segment.number)
                hyps = segment.hypotheses[0].text, (trial or segment).hypotheses[0].text
                if trial is not None and len(missing_spans(spans, hyps[1])) < len(missing_spans(spans, hyps[0])):
                    trial.hypotheses[1:] = segment.hypotheses[1:]
                    vars(segment).update(vars(trial))
                further = restorable(segment.text, spans, hyps[1])
                if not removed[segment.number].issuperset(further):
                    removed[segment.number].update(further)
                    lost_more.append(segment)
            segments = lost_more

    def _put_back(self, segments: Sequence[Segment]) -> list[Segment | None]:
        """Segments with the spans that were removed in the best translation; None where they have no place."""
        results: list[Segment | None] = []
        for segment, aligned in zip(segments, self._align(segments), strict=True):
            restored = segment.removal.restored(aligned) if aligned and segment.removal else None
            if restored is None:
                results.append(None)
                continue
            best = replace(segment.hypotheses[0], attention=restored.attention, text=restored.hyp)
            hypotheses = [best, *segment.hypotheses[1:]]
            spelled = restored.src_tokens, restored.tgt_tokens
            results.append(replace(segment, hypotheses=hypotheses, spelled=spelled))
        return results

    def _align(self, segments: Sequence[Segment]) -> list[Aligned | None]:
        attention = self._attend(segments) if segments else []
        tokens = [segment.spell(self._tokenizers) for segment in segments]
        return [
            Aligned.of(s.removal.rest if s.removal and not s.spelled else s.text, src, s.hypotheses[0].text, tgt, each)
            for s, (src, tgt), each in zip(segments, tokens, attention, strict=True)
        ]


def _flags(src: str, spans: Sequence[Span], terms: Sequence[Term], hyp: str) -> tuple[str, ...]:
    """Those of FIDELITY_FLAGS that a translation has."""
    missing = missing_spans(spans, hyp)
    flags = {
        "missing": any(not span.is_number for span in missing),
        "numbers": any(span.is_number for span in missing) or has_added_numbers(src, hyp),
        "terms": not all(honoured_form(term, hyp) for term in terms),
    }
    return tuple(flag for flag, is_set in flags.items() if is_set)


def restorable(src: str, spans: Sequence[Span], hyp: str) -> list[Span]:
    """The spans that a translation lacks and that may be put into it: those that may be words are only compared."""
    return [span for span in missing_spans(spans, hyp) if not may_be_word(src, span)]


def restore(src: str, missing: Sequence[Span], aligned: Aligned) -> tuple[str, list[Replacement]]:
    """The translation with missing spans in the places that attend to them, where there are some, and what changed.

    Words that the translation and the source share stay.
    """
    spans = find_spans(src)
    replacements: list[Replacement] = []
    for span in missing:
        place = aligned.target_range(span.start, span.end)
        if place is None:
            continue
        replaced = aligned.hyp[slice(*place)]
        is_taken = any(start < place[1] and place[0] < start + len(old) for start, old, _ in replacements)
        if not is_taken and not any(each.text == replaced for each in spans):
            replacements.append(Replacement(place[0], replaced, span.text))
    replacements.sort()
    hyp = aligned.hyp
    for start, old, new in reversed(replacements):
        hyp = hyp[:start] + new + hyp[start + len(old) :]
    return hyp, replacements


MAX_PERIOD = 24  # tokens of the n-gram that is repeated
MIN_REPEATS = 4  # occurrences in a row
MIN_LOOP_TOKENS = 12  # of all occurrences together
# tokens of a loop that occurred before: all except those of the first occurrence
MIN_REPEATED_TOKENS = MIN_LOOP_TOKENS - MIN_LOOP_TOKENS // MIN_REPEATS


def has_loop(tokens: Sequence[int], source: Sequence[int]) -> bool:
    """Return whether an n-gram is repeated in a row: MIN_REPEATS times, and over twice as often as in the source.

    "Ha ha ha ha ha" has a correct translation with repeats; sixty times "and the" is no translation of a sentence.
    """
    if len(tokens) - len(set(tokens)) < MIN_REPEATED_TOKENS:  # fast, and the usual case
        return False
    repeats = max_repeats(tokens)
    return repeats >= MIN_REPEATS and repeats > 2 * max_repeats(source)


def max_repeats(tokens: Sequence[int]) -> int:
    """Largest number of consecutive occurrences of an n-gram, n <= MAX_PERIOD, with MIN_LOOP_TOKENS together.

    At least 1.
    """
    result = 1
    for period in range(1, min(MAX_PERIOD, len(tokens) // 2) + 1):
        same = 0
        for token, earlier in zip(tokens[period:], tokens, strict=False):
            same = same + 1 if token == earlier else 0
            if same + period >= MIN_LOOP_TOKENS:
                result = max(result, same // period + 1)
    return result
