"""Plausibility of the inputs of an evaluation: texts that give a score, but not that of a translation."""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence

from mtkit.text.language import are_similar, language_of_text

MIN_COPIED_SHARE = 0.1  # of the lines; names, numbers and quotations are few of them
MIN_TOKENIZED_SHARE = 0.1  # of the lines; a sentence may end in a separate full stop
MIN_COMPATIBILITY_DIFFERENCE = 0.1  # of the lines; a no-break space or an ellipsis is no sign of another normal form
MIN_BLANK_SHARE = 0.1  # of the lines of one reference of several
MIN_REPEATED, MIN_REPEATED_SHARE = 3, 0.5  # lines, and of the lines
MIN_LINES = 20  # for a guess of the language or of tokenized text; from fewer it is often wrong
_MISREAD_UTF8 = re.compile("[\u00c2-\u00f4][\u0080-\u00bf\u0152-\u0178\u0192\u02c6\u02dc\u2013-\u203a\u20ac\u2122]")


def implausible_inputs(
    hyps: Sequence[str], refs: Sequence[Sequence[str]], src: Sequence[str] | None = None
) -> list[str]:
    """A sentence about each mistake that is likely; an empty list is the rule.

    Args:
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
    if any(list(one) == list(other) for one, other in itertools.combinations(refs, 2)):
        sentences.append("two references are equal, line by line; are both files right?")
    sentences += _encoding_faults(hyps, refs)
    tokenized, ref_tokenized = (sum(line.endswith(" .") for line in lines) for lines in (hyps, refs[0]))
    if tokenized >= max(MIN_LINES, MIN_TOKENIZED_SHARE * len(hyps)) and ref_tokenized < tokenized / 2:
        sentences.append(
            f"{tokenized:,} of {len(hyps):,} translations end in a space and a full stop, as tokenized text does, and "
            f"{ref_tokenized:,} references; detokenize the translations"
        )
    count, of_ref = (
        max(Counter(line.strip() for line in lines if not _is_blank(line)).values(), default=0)
        for lines in (hyps, refs[0])
    )
    if count >= max(MIN_REPEATED, MIN_REPEATED_SHARE * len(hyps)) and 2 * of_ref <= count:
        sentences.append(
            f"{count:,} of {len(hyps):,} translations are the same line, where at most {of_ref:,} reference "
            "lines are equal; is it the output of this source, and was the model trained for long enough?"
        )
    blank = sum(_is_blank(hyp) and not _is_blank(ref) for hyp, ref in zip(hyps, refs[0], strict=True))
    if blank:
        sentences.append(f"{blank:,} of {len(hyps):,} translations are blank where the reference is not")
    without_ref = sum(all(map(_is_blank, each)) for each in zip(*refs, strict=True))
    if without_ref:
        sentences.append(f"{without_ref:,} of {len(hyps):,} reference lines are blank")
    for number, ref in enumerate(refs if len(refs) > 1 else (), 1):
        if (blank := sum(map(_is_blank, ref))) >= max(1, MIN_BLANK_SHARE * len(ref)):
            sentences.append(f"{blank:,} of {len(ref):,} lines of reference {number} are blank")
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
    misread_counts = [sum(map(_is_misread, lines)) for lines in (hyps, *refs)]
    shares = []
    for lines in (hyps, *refs):
        beyond_ascii = (line for line in lines if not line.isascii())
        differing = sum(
            unicodedata.normalize("NFKC", each) != unicodedata.normalize("NFC", each) for each in beyond_ascii
        )
        shares.append(differing / max(1, len(lines)))
    if not any(misread_counts) and max(abs(share - shares[0]) for share in shares) >= MIN_COMPATIBILITY_DIFFERENCE:
        others = " and ".join(f"{share:.0%}" for share in shares[1:])
        sentences.append(
            f"the Unicode normal forms differ: {shares[0]:.0%} of the translations and {others} of the references "
            "contain compatibility characters, such as full-width letters; normalise both, for example with uconv -x "
            "nfkc"
        )
    texts = [("translations", hyps), *(("reference lines", ref) for ref in refs)]
    for (name, lines), misread in zip(texts, misread_counts, strict=True):
        if misread:
            sentences.append(f"{misread:,} {name} look like UTF-8 that was read in another encoding, such as Ã¼ for ü")
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


def _is_misread(line: str) -> bool:
    """Return whether a line becomes valid UTF-8 with fewer characters if it is written in Latin-1 or Windows-1252."""
    if line.isascii() or _MISREAD_UTF8.search(line) is None:
        return False
    for encoding in ("cp1252", "latin-1"):
        try:
            line.encode(encoding).decode()
        except UnicodeError:
            continue
        return True
    return False


def unexpected_languages(hyps: Sequence[str], refs: Sequence[Sequence[str]]) -> list[str]:
    """A sentence if the text of the translations looks like another language than the first reference."""
    if len(hyps) < MIN_LINES:
        return []
    hyp, ref = language_of_text(hyps), language_of_text(refs[0])
    if hyp is None or ref is None or are_similar(hyp, ref):
        return []
    return [f"the translations look like language {hyp}, but the references like {ref}; are these the right files?"]


def _is_blank(line: str) -> bool:
    return not line or line.isspace()
