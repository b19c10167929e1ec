"""Statistics of a parallel corpus that choices for omitted keys depend on, from a sample of its lines."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from mtkit.evaluation.tokenizer_choice import script_of
from mtkit.text.lines import Text, count_lines, read_lines

MAX_SAMPLE = 200_000  # pairs that are counted in detail, evenly spaced; a second or two
SPACED_CHARACTERS = 4.0  # characters of a token of a subword model, space included, where words are separated by spaces
UNSPACED_CHARACTERS = 1.6  # and where they are not, as in Japanese


@dataclass(frozen=True)
class SideStatistics:
    """Statistics of one side of a corpus.

    Attributes:
        lines: number of lines.
        characters: mean number in a line.
        words: mean number in a line; words are separated by spaces.
        distinct_words: in the sample.
        alphabet: number of occurrences of each character in the sample.
        is_unspaced: whether the script has no spaces between words.
    """

    lines: int
    characters: float
    words: float
    distinct_words: int
    alphabet: Counter[str]
    is_unspaced: bool

    @property
    def tokens(self) -> float:
        """Estimated tokens in a line, before there is a tokenizer."""
        return self.characters / (UNSPACED_CHARACTERS if self.is_unspaced else SPACED_CHARACTERS) + 1


@dataclass(frozen=True)
class CorpusStatistics:
    """Statistics of all training files of a recipe.

    Attributes:
        pairs: sentence pairs.
        src: of the source side.
        tgt: of the target side.
    """

    pairs: int
    src: SideStatistics
    tgt: SideStatistics

    @property
    def tokens(self) -> int:
        """Estimated tokens of the corpus, mean of both sides."""
        return round(self.pairs * (self.src.tokens + self.tgt.tokens) / 2)

    @property
    def shared_characters(self) -> float:
        """Share of the text that is written in the same characters on both sides, 0 to 1."""
        src, tgt = self.src.alphabet, self.tgt.alphabet
        total = min(src.total(), tgt.total())
        if not total:
            return 1.0
        return sum(min(src[each] / src.total(), tgt[each] / tgt.total()) for each in src.keys() & tgt.keys())


def corpus_statistics(src: Sequence[Text], tgt: Sequence[Text]) -> CorpusStatistics:
    """Read the files of both sides once, and count a sample of at most MAX_SAMPLE lines of each.

    Raises:
        MissingInputError, DataError, ReadWriteError: as `read_lines`.
    """
    num_pairs = sum(map(count_lines, tgt))
    step = max(1, -(-num_pairs // MAX_SAMPLE))
    return CorpusStatistics(num_pairs, _side(src, step), _side(tgt, step))


def _side(files: Sequence[Text], step: int) -> SideStatistics:
    return side_statistics(itertools.islice(itertools.chain.from_iterable(map(read_lines, files)), 0, None, step), step)


def side_statistics(lines: Iterable[str], step: int = 1) -> SideStatistics:
    """Count the lines of one side.

    Args:
        lines: the sample.
        step: the corpus has this number of lines for each line of the sample.
    """
    count = characters = words = 0
    alphabet: Counter[str] = Counter()
    distinct: set[str] = set()
    is_unspaced: bool | None = None
    for block in _blocks(lines):
        if is_unspaced is None:
            is_unspaced = script_of(block) not in (None, "Korean")
        for line in block:
            split = line.split()
            count += 1
            characters += len(line)
            words += len(split)
            distinct.update(split)
        alphabet.update("".join(block))
    return SideStatistics(
        lines=count * step,
        characters=characters / max(1, count),
        words=words / max(1, count),
        distinct_words=len(distinct),
        alphabet=Counter({each: number for each, number in alphabet.items() if not each.isspace()}),
        is_unspaced=bool(is_unspaced),
    )


def _blocks(lines: Iterable[str]) -> Iterator[list[str]]:
    iterator = iter(lines)
    while block := list(itertools.islice(iterator, 10_000)):
        yield block
