"""Groups of lines in another language or script than the rest of a text."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mtkit.corpus.lenient_reading import BLOCK_LINES
from mtkit.corpus.sentence_alignment import SAMPLE_LINES, TokenSide, sample_rows
from mtkit.text.language import are_similar, language_code, rank_languages, script_name

GROUP = 10  # lines that are classified together
LINE_START = 120  # characters of a line of which the language is classified; quotations stand behind
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


def languages_of(text: str) -> dict[str, float]:
    """The languages that a text may be in, with their probabilities."""
    return {code: value for code, value in rank_languages(text) if value >= UNLIKELY}


def other_scripts(groups: list[LineGroup]) -> dict[int, str]:
    """The groups in another script than most, and that script; none if there is no such script."""
    usual = usual_script([each.scripts for each in groups])
    return {
        each.number: f"looks {each.scripts.most_common(1)[0][0].title()}"
        for each in groups
        if usual is not None and lacks_script(each.scripts, usual)
    }


def usual_script(texts: list[Counter[str]]) -> str | None:
    """The script that most texts are written in; None if there is no such script."""
    counts = Counter(scripts.most_common(1)[0][0] for scripts in texts).most_common(1)
    return counts[0][0] if counts and counts[0][1] >= MAJORITY * len(texts) else None


def lacks_script(scripts: Counter[str], usual: str) -> bool:
    """Return whether the letters of a text are hardly of the usual script."""
    return scripts[usual] < MIN_SCRIPT * scripts.total()


def other_languages(groups: list[LineGroup], stated: str | None) -> dict[int, str]:
    """The groups that are surely in another language than stated, or than most, and that language."""
    expected = expected_language([each.languages for each in groups], stated)
    if expected is None:
        return {}
    others = {each.number: other_language(each.languages, expected) for each in groups}
    return {number: f"looks like {code}" for number, code in others.items() if code is not None}


def expected_language(texts: list[dict[str, float]], stated: str | None) -> str | None:
    """The language stated, or that of most texts; None if that of most is another one, unknown to the classifier.

    Args:
        texts: languages that each may be in, see `languages_of`.
    """
    best = [_best(each) for each in texts if each]
    if not best:
        return None
    expected = language_code(stated) or stated if stated is not None else Counter(best).most_common(1)[0][0]
    return expected if sum(are_similar(code, expected) for code in best) >= MAJORITY * len(best) else None


def other_language(languages: dict[str, float], expected: str) -> str | None:
    """The language that a text is surely in, if it is not the expected one; None otherwise."""
    if not languages or languages[_best(languages)] < SURE or any(are_similar(code, expected) for code in languages):
        return None
    return _best(languages)


def _best(languages: dict[str, float]) -> str:
    return max(languages, key=languages.__getitem__)


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
