"""Word alignments: files in Pharaoh form, alignments of a lexicon, and the alignment error rate (Och and Ney 2003)."""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mtkit.corpus.ibm_model1 import Lexicon
from mtkit.errors import DataError
from mtkit.text.lines import read_lines

Link = tuple[int, int]  # source, target; words from 0
_LINK = re.compile(r"([0-9]{1,6})([-?])([0-9]{1,6})", re.ASCII)


@dataclass(frozen=True)
class ReferenceAlignment:
    """Links of a sentence pair that annotators found.

    Attributes:
        sure: unambiguous links.
        possible: all links, the sure ones included.
    """

    sure: Set[Link]
    possible: Set[Link]


@dataclass
class AlignmentErrors:
    """Counts of links over a corpus, for the alignment error rate."""

    links: int = 0
    sure: int = 0
    correct_sure: int = 0
    correct_possible: int = 0

    def add(self, links: Set[Link], reference: ReferenceAlignment) -> None:
        """Count the links of a sentence pair."""
        self.links += len(links)
        self.sure += len(reference.sure)
        self.correct_sure += len(links & reference.sure)
        self.correct_possible += len(links & reference.possible)

    @property
    def error_rate(self) -> float | None:
        """1 - (|A ∩ S| + |A ∩ P|) / (|A| + |S|), Och and Ney 2003, eq. 9; None without any links.

        https://aclanthology.org/J03-1002/
        """
        total = self.links + self.sure
        return 1 - (self.correct_sure + self.correct_possible) / total if total else None


def read_alignments(path: Path, words: Sequence[tuple[int, int]]) -> list[ReferenceAlignment]:
    """Read one line per sentence pair: `0-0 1-2 2?1`, source word, target word; `?` marks a link that is only possible.

    Args:
        words: number of words on both sides of each pair.

    Raises:
        DataError: the file has another number of lines, or a link has another form or no such words.
        MissingInputError, ReadWriteError: the file cannot be read.
    """
    lines = list(read_lines(path))
    if len(lines) != len(words):
        raise DataError(f"{path}: {len(lines):,} lines for {len(words):,} sentence pairs; write one line for each pair")
    alignments = []
    for number, (line, (num_src, num_tgt)) in enumerate(zip(lines, words, strict=True), 1):
        place, sure, possible = f"{path}:{number}", set(), set()
        for field in line.split():
            match = _LINK.fullmatch(field)
            if match is None:
                raise DataError(
                    f"{place}: {field[:40]!r} is not a link; write 0-1, or 0?1 for one that is only possible"
                )
            link = int(match[1]), int(match[3])
            if link[0] >= num_src or link[1] >= num_tgt:
                raise DataError(
                    f"{place}: {field}: the pair has {num_src} source and {num_tgt} target words, counted from 0"
                )
            possible.add(link)
            if match[2] == "-":
                sure.add(link)
        alignments.append(ReferenceAlignment(sure, possible))
    return alignments


class LexiconAligner:
    """Alignment of each target token to its most probable source token by IBM Model 1.

    Brown et al. 1993, sec. 4.1: all alignments are equally probable there, so that the best one links each target token
    on its own. No link if the end of sentence, the empty word, is more probable, or if the lexicon knows no source
    token for it.
    """

    def __init__(self, lexicon: Lexicon, eos: int) -> None:
        self._targets, self._offsets = lexicon.targets.flat, lexicon.targets.offsets
        self._probabilities = lexicon.probabilities
        self._eos = eos

    def links(self, src: Sequence[int], tgt: Sequence[int]) -> list[Link]:
        """Links between token positions, from the ids of both sides without the end of sentence."""
        if not tgt:
            return []
        rows = []
        for token in [*src, self._eos]:
            part = slice(self._offsets[token], self._offsets[token + 1])
            likely = dict(zip(self._targets[part].tolist(), self._probabilities[part].tolist(), strict=True))
            rows.append([likely.get(each, 0.0) for each in tgt])
        table = np.array(rows)  # t(target | token) [S + 1, T]; 0 if the target is not among the likely ones
        best = table.argmax(0)
        is_linked = (table.max(0) > 0) & (best < len(src))
        return [(int(best[t]), int(t)) for t in np.flatnonzero(is_linked)]
