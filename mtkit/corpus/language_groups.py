"""Groups of lines in another language or script than the rest of a text."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mtkit.corpus.lenient_reading import BLOCK_LINES
from mtkit.corpus.sentence_alignment import SAMPLE_LINES, TokenSide, sample_rows
from mtkit.text.language import are_similar, language_code, script_name

GROUP = 10  # lines that are classified together
MIN_LETTERS = 40  # of a group that is classified
SURE, UNLIKELY = 0.95, 1e-3  # probabilities of another language, and of the expected one
MIN_SCRIPT = 0.02  # share of the usual script in the letters of a group
MAJORITY = 0.7  # of the groups, whose language is the expected one
UNKNOWN_WORDS = 0.3  # share of unknown words, more than usual, at which lines outside the sample are classified


@dataclass(frozen=True)
class LineGroup:
    """Consecutive lines of one side: their number of letters by script, and the probable languages."""

    number: int
    scripts: Counter[str]
    languages: dict[str, float]


def other_scripts(groups: list[LineGroup]) -> dict[int, str]:
    """The groups in another script than most, and that script; none if there is no such script."""
    main = [each.scripts.most_common(1)[0][0] for each in groups]
    counts = Counter(main).most_common(1)
    if not counts or counts[0][1] < MAJORITY * len(groups):
        return {}
    usual = counts[0][0]
    return {
        each.number: f"looks {script.title()}"
        for each, script in zip(groups, main, strict=True)
        if each.scripts[usual] < MIN_SCRIPT * each.scripts.total()
    }


def other_languages(groups: list[LineGroup], stated: str | None) -> dict[int, str]:
    """The groups that are surely in another language than stated, or than most, and that language."""
    best = {each.number: max(each.languages, key=each.languages.__getitem__) for each in groups if each.languages}
    most = Counter(best.values()).most_common(1)
    if not most:
        return {}
    expected = language_code(stated) or stated if stated is not None else most[0][0]
    if sum(are_similar(code, expected) for code in best.values()) < MAJORITY * len(best):  # unknown to the classifier
        return {}
    return {
        each.number: f"looks like {best[each.number]}"
        for each in groups
        if each.languages
        and each.languages[best[each.number]] >= SURE
        and not any(are_similar(code, expected) for code in each.languages)
    }


def count_scripts(text: str) -> Counter[str]:
    """The number of letters of each script, as Unicode names it; those of Chinese and Japanese are one."""
    scripts: Counter[str] = Counter()
    for char, count in Counter(filter(str.isalpha, text)).items():
        script = script_name(char) or ""
        scripts["CJK" if script in ("HIRAGANA", "KATAKANA", "IDEOGRAPHIC") else script] += count
    return scripts


def with_unknown_words(side: TokenSide) -> NDArray[np.bool_]:
    """The groups of lines of which many words are not in the sample, as a mask."""
    count = len(side)
    if count <= SAMPLE_LINES:
        return np.zeros(-(-count // GROUP), dtype=bool)
    known = np.unique(side.tokens.take(sample_rows(count)).flat)
    shares = []
    for start in range(0, count, BLOCK_LINES):
        rows = side.tokens.take(np.arange(start, min(count, start + BLOCK_LINES)))
        found = np.minimum(np.searchsorted(known, rows.flat), len(known) - 1)
        group = np.repeat(np.arange(len(rows)) // GROUP, rows.lengths)
        unknown, total = (
            np.bincount(group, weights, minlength=-(-len(rows) // GROUP))
            for weights in (known[found] != rows.flat, None)
        )
        shares.append(unknown / np.maximum(1, total))
    share = np.concatenate(shares)
    return np.asarray(share > np.median(share) + UNKNOWN_WORDS)
