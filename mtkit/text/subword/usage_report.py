"""Use of a subword model on text: fertility, unknown tokens and the share of the vocabulary that occurs."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mtkit.text.lines import COMPRESSION_SUFFIXES, count_lines, read_lines
from mtkit.text.subword.tokenizer import Tokenizer

MAX_LINES = 20_000  # of a file, taken evenly: enough for three digits of every number
_BLOCK_LINES = 2048


@dataclass
class SubwordUsage:
    """Counts of the tokens of a text.

    Attributes:
        label: name of the text, such as its language.
        characters: characters without white space.
        tokens: occurrences of each token.
    """

    label: str
    lines: int = 0
    words: int = 0
    characters: int = 0
    unknown: int = 0
    tokens: Counter[int] = field(default_factory=Counter)

    @property
    def num_tokens(self) -> int:
        """Number of tokens."""
        return self.tokens.total()

    @property
    def fertility(self) -> float:
        """Tokens per word; 0 without words. It means little for a script without spaces."""
        return self.num_tokens / self.words if self.words else 0.0


def measure_usage(tokenizer: Tokenizer, files: Sequence[Path]) -> list[SubwordUsage]:
    """Count the tokens of each language, on at most MAX_LINES lines of each file.

    Files with the same language, the ending of the name without that of compression, are counted together.

    Raises:
        DataError, MissingInputError, ReadWriteError: as `read_lines`.
    """
    by_label: dict[str, SubwordUsage] = {}
    for file in files:
        label = language_of(file)
        usage = by_label.setdefault(label, SubwordUsage(label))
        lines = itertools.islice(read_lines(file), None, None, max(1, count_lines(file) // MAX_LINES))
        while block := list(itertools.islice(lines, _BLOCK_LINES)):
            usage.lines += len(block)
            for line, ids in zip(block, tokenizer.encode(block), strict=True):
                words = line.split()
                usage.words += len(words)
                usage.characters += sum(map(len, words))
                usage.tokens.update(ids)
                usage.unknown += ids.count(tokenizer.vocab.unk)
    return list(by_label.values())


def language_of(file: Path) -> str:
    """The ending of a file name without that of compression, such as de of train.de.gz; the name if it has none."""
    suffixes = [suffix[1:] for suffix in file.suffixes if suffix not in COMPRESSION_SUFFIXES]
    return suffixes[-1] if suffixes and suffixes[-1] != "txt" else file.name


def usage_lines(usages: Sequence[SubwordUsage], tokenizer: Tokenizer) -> list[str]:
    """A sentence about each language."""
    not_text = {*tokenizer.special_ids, tokenizer.vocab.unk}
    size = max(1, tokenizer.vocab.size - len(not_text))
    return [
        f"{usage.label}: {usage.fertility:.2f} tokens per word, "
        f"{usage.characters / max(1, usage.num_tokens):.2f} characters per token, "
        f"{100 * usage.unknown / max(1, usage.num_tokens):.3f}% unknown, "
        f"{100 * len(usage.tokens.keys() - not_text) / size:.1f}% of the vocabulary used (in {usage.lines:,} lines)"
        for usage in usages
    ]
