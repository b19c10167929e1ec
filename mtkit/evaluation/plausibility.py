"""Plausibility of the inputs of an evaluation: texts that give a score, but not that of a translation."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

MIN_COPIED_SHARE = 0.1  # of the lines; names, numbers and quotations are few of them


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
    elif src is not None and hyps:
        copied = sum(hyp == line and hyp != refs[0][i] for i, (hyp, line) in enumerate(zip(hyps, src, strict=True)))
        if copied >= MIN_COPIED_SHARE * len(hyps):
            sentences.append(f"{copied:,} of {len(hyps):,} translations are copies of the source")
    if src is not None and any(list(ref) == list(src) for ref in refs):
        sentences.append("a reference is equal to the source, line by line; is it the right file?")
    sentences += _encoding_faults(hyps, refs)
    blank = sum(_is_blank(hyp) and not _is_blank(ref) for hyp, ref in zip(hyps, refs[0], strict=True))
    if blank:
        sentences.append(f"{blank:,} of {len(hyps):,} translations are blank where the reference is not")
    without_ref = sum(all(map(_is_blank, each)) for each in zip(*refs, strict=True))
    if without_ref:
        sentences.append(f"{without_ref:,} of {len(hyps):,} reference lines are blank")
    return sentences


def _encoding_faults(hyps: Sequence[str], refs: Sequence[Sequence[str]]) -> list[str]:
    """Sentences about Unicode normal forms and characters that a wrong conversion leaves."""
    sentences = []
    forms = [_normal_form(lines) for lines in (hyps, *refs)]
    if "decomposed" in forms and "composed" in forms:
        hyp = forms[0] or "plain"
        others = " and ".join(dict.fromkeys(form or "plain" for form in forms[1:]))
        sentences.append(
            f"the Unicode normal forms differ: the translations are {hyp}, the references {others}: equal words do "
            "not match; normalise both, for example with uconv -x nfc"
        )
    for name, lines in (("translations", hyps), *(("reference lines", ref) for ref in refs)):
        replaced = sum("\ufffd" in line for line in lines)
        if replaced:
            sentences.append(
                f"{replaced:,} {name} contain U+FFFD, the mark of bytes that were not valid in an encoding"
            )
    return sentences


def _normal_form(lines: Sequence[str]) -> str | None:
    """The form of accented letters in a text: composed (NFC) or decomposed (NFD); None if it has none."""
    composed = decomposed = 0
    for line in lines:
        if not line.isascii():
            composed += unicodedata.normalize("NFD", line) != line
            decomposed += not unicodedata.is_normalized("NFC", line)
    if not composed and not decomposed:
        return None
    return "decomposed" if 2 * decomposed > composed else "composed"


def _is_blank(line: str) -> bool:
    return not line or line.isspace()
