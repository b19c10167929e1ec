"""Plausibility of the inputs of an evaluation: texts that give a score, but not that of a translation."""

from __future__ import annotations

from collections.abc import Sequence


def implausible_inputs(
    hyps: Sequence[str], refs: Sequence[Sequence[str]], src: Sequence[str] | None = None
) -> list[str]:
    """A sentence about each mistake that is likely; an empty list is the rule.

    Args:
        hyps: the translations.
        refs: references, each with the same number of lines.
        src: the source text, with the same number of lines; None: unknown.
    """
    sentences = []
    if any(list(hyps) == list(ref) for ref in refs):
        sentences.append("the translations are equal to a reference, line by line; is it the right file?")
    if src is not None and list(hyps) == list(src):
        sentences.append("the translations are equal to the source, line by line; is it the right file?")
    if src is not None and any(list(ref) == list(src) for ref in refs):
        sentences.append("a reference is equal to the source, line by line; is it the right file?")
    blank = sum(_is_blank(hyp) and not _is_blank(ref) for hyp, ref in zip(hyps, refs[0], strict=True))
    if blank:
        sentences.append(f"{blank:,} of {len(hyps):,} translations are blank where the reference is not")
    without_ref = sum(all(map(_is_blank, each)) for each in zip(*refs, strict=True))
    if without_ref:
        sentences.append(f"{without_ref:,} of {len(hyps):,} reference lines are blank")
    return sentences


def _is_blank(line: str) -> bool:
    return not line or line.isspace()
