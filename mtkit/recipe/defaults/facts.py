"""Facts that the rules for omitted keys depend on: a sample of the corpus, a time budget, the values decided so far."""

from __future__ import annotations

import itertools
import re
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mtkit.errors import UsageError
from mtkit.evaluation.tokenizer_choice import is_unspaced_script, script_of
from mtkit.text.lines import Text, count_lines, read_lines

MIN_HOURS, MAX_HOURS = 1 / 60, 240_000.0  # of a budget
_UNITS = {"m": 1 / 60, "h": 1.0, "d": 24.0}


@dataclass(frozen=True)
class BudgetLimits:
    """Limits of a time budget; None: no limit.

    Attributes:
        size: largest model size, an index of `model_size.SIZES`.
        updates: that are expected to fit.
        batch_tokens: largest batch with which enough updates fit.
        started: time of the clock at the start of the command, from which the budget counts.
    """

    size: int | None = None
    updates: int | None = None
    batch_tokens: int | None = None
    hours: float | None = None
    words: str = ""
    started: float = field(default_factory=lambda: time.perf_counter(), compare=False)

    @property
    def budget_hours(self) -> float | None:
        """Hours as a recipe has them."""
        return None if self.hours is None else round(self.hours, 6)


NO_LIMITS = BudgetLimits()


def parse_budget(text: str) -> BudgetLimits:
    """Parse `30m`, `2h`, `1d` or `best`.

    Raises:
        UsageError: it is none of these, or not from MIN_HOURS to MAX_HOURS.
    """
    if text == "best":
        return BudgetLimits(words="best")
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([mhd])", text)
    hours = float(match[1]) * _UNITS[match[2]] if match else 0.0
    if not MIN_HOURS <= hours <= MAX_HOURS:
        raise UsageError(
            f"--budget {text}: not a time from 1m to {MAX_HOURS / 24:.0f}d; write 30m, 2h, 1d, or best for no limit"
        )
    return BudgetLimits(hours=hours, words=text)


def check_budget(budget: str | None, overrides: Sequence[str]) -> BudgetLimits:
    """Parse a budget, and check that no override decides what the budget decides.

    Args:
        budget: see `parse_budget`; None: no limit except that of the machine.
        overrides: of a recipe, `key=value` each.

    Raises:
        UsageError: as `parse_budget`; or an override states the updates, the hours, or that nothing is chosen.
    """
    if budget is None:
        return BudgetLimits()
    limits = parse_budget(budget)
    for override in overrides:
        if override.partition("=")[0] in (
            "training.max_updates",
            "training.budget_hours",
            "training.budget_updates",
            "defaults",
        ):
            raise UsageError(f"--budget {budget} and {override} contradict each other; give one of them")
    return limits


@dataclass(frozen=True)
class Facts:
    """Facts about corpus and machine.

    Attributes:
        corpus: statistics of the training text.
        has_gpu: whether training runs on a GPU.
        has_valid: whether the recipe has a validation set.
    """

    corpus: CorpusStatistics
    has_gpu: bool
    has_valid: bool
    limits: BudgetLimits = NO_LIMITS


Values = Mapping[str, Any]  # key -> value, of the keys that the recipe states and of those that earlier rules chose


@dataclass(frozen=True)
class Choice:
    """Value of a key, and the reason in a few words: the facts that it follows from."""

    value: Any
    reason: str


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
    """Statistics of all training files of a recipe."""

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
    sides = [itertools.chain.from_iterable(map(read_lines, files)) for files in (src, tgt)]
    samples = [itertools.islice(lines, 0, None, step) for lines in sides]
    return CorpusStatistics(num_pairs, *(side_statistics(sample, step) for sample in samples))


def side_statistics(lines: Iterable[str], step: int = 1) -> SideStatistics:
    """Count the lines of one side.

    Args:
        step: the corpus has this number of lines for each line of the sample.
    """
    count = characters = words = 0
    alphabet: Counter[str] = Counter()
    distinct: set[str] = set()
    is_unspaced: bool | None = None
    iterator = iter(lines)
    while block := list(itertools.islice(iterator, 10_000)):
        if is_unspaced is None:
            is_unspaced = is_unspaced_script(script_of(block))
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
