"""Repair of translations: terms of a glossary and spans that are missing, and flags.

What a translation lacks takes the place of the words that attend to its source, so that nothing is appended and the
rest of the translation stays. To force a term by a prefix and to search on from there is worse: the words behind it
change too, and some are repeated or lost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mtkit.text.form.spans import Span, find_spans, missing_spans
from mtkit.text.tokenizer import TokenizerPair
from mtkit.translate.fidelity.glossary import Glossary, Term, honoured_form
from mtkit.translate.fidelity.ranges import Aligned
from mtkit.translate.fidelity.restore import can_restore, fidelity_flags, restore
from mtkit.translate.segment import Segment


class Repair:
    """Repairs the best translation of segments."""

    def __init__(
        self,
        tokenizers: TokenizerPair,
        glossary: Glossary | None,
        *,
        restores: bool,
        attend: Callable[[Sequence[Segment]], list[Any]],
    ) -> None:
        """Take the parts.

        Args:
            tokenizers: of both sides.
            glossary: terms; None: there are none.
            restores: whether missing spans are put back; otherwise they are only flagged.
            attend: returns the attention [T, S] of the best hypothesis of each segment, None where there is none.
        """
        self._tokenizers, self._glossary, self._restores = tokenizers, glossary, restores
        self._attend = attend

    def __call__(self, segments: Sequence[Segment]) -> None:
        """Put missing spans and terms into the best texts, and flag what is not as it should be."""
        wanted = {s.number: find_spans(s.text) for s in segments}
        terms = {s.number: self._glossary.find(s.text) if self._glossary else [] for s in segments}
        lacking = {s.number: self._lacking(wanted[s.number], terms[s.number], s.texts[0]) for s in segments}
        repaired = [s for s in segments if can_restore(lacking[s.number])]
        alignments = self._align(repaired, [s.texts[0] for s in repaired])
        for segment, aligned in zip(repaired, alignments, strict=True):
            if aligned is not None:
                segment.texts[0], segment.replaced = restore(segment.text, lacking[segment.number], aligned)
        for segment in segments:
            hyp, of_line = segment.texts[0], terms[segment.number]
            segment.terms = tuple((segment.text[t.start : t.end], honoured_form(t, hyp) or "") for t in of_line)
            flags = fidelity_flags(segment.text, _outside(wanted[segment.number], of_line), hyp)
            unmet = ("terms",) if not all(form for _, form in segment.terms) else ()
            segment.flags = (*segment.flags, *flags, *unmet)

    def _lacking(self, wanted: Sequence[Span], terms: Sequence[Term], hyp: str) -> list[Span]:
        """Spans to put into a translation: terms without an allowed form, and missing spans."""
        unmet = [Span(t.start, t.end, t.forms[0]) for t in terms if honoured_form(t, hyp) is None]
        return [*unmet, *(missing_spans(_outside(wanted, terms), hyp) if self._restores else [])]

    def _align(self, segments: Sequence[Segment], hyps: Sequence[str]) -> list[Aligned | None]:
        attention = self._attend(segments) if segments else []
        return [
            Aligned.of(s.text, s.ids, hyp, s.hypotheses[0].tokens, each, self._tokenizers)
            for s, hyp, each in zip(segments, hyps, attention, strict=True)
        ]


def _outside(spans: Sequence[Span], terms: Sequence[Term]) -> list[Span]:
    """The spans that overlap no term, whose translation the glossary states."""
    return [s for s in spans if not any(t.start < s.end and s.start < t.end for t in terms)]
