"""Spans of the source that a translation lacks, put in the place of the words that attend to them."""

from __future__ import annotations

from collections.abc import Sequence

from mtkit.text.spans import Span, find_spans, has_added_numbers, missing_spans
from mtkit.translate.alignment import Replacement
from mtkit.translate.fidelity.ranges import Aligned
from mtkit.translate.fidelity.removal import may_be_word


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


def fidelity_flags(src: str, spans: Sequence[Span], hyp: str) -> tuple[str, ...]:
    """The flags of a translation: "missing" without a span of the source, "numbers" with other numbers."""
    missing = missing_spans(spans, hyp)
    flags = {
        "missing": any(not span.is_number for span in missing),
        "numbers": any(span.is_number for span in missing) or has_added_numbers(src, hyp),
    }
    return tuple(flag for flag, is_set in flags.items() if is_set)
