"""Reasons for a difference between two systems: words and n-grams, kinds of words, classes of errors, lines.

N-grams that one system has right and the other lacks are those of compare-mt (Neubig et al. 2019,
https://aclanthology.org/N19-4007/), ranked here by the statistic of McNemar (1947): of the occurrences that one system
alone has right, (a - b) / sqrt(a + b), which is about normal for equally good systems. Counts of errors are compared in
the same way, by the sum of the differences of all lines over the root of the sum of their squares.
"""

from __future__ import annotations

import difflib
import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.bleu import BLEU

from mtkit.display import Table
from mtkit.evaluation.comparison import Comparison
from mtkit.evaluation.metrics import CharacterF
from mtkit.evaluation.resampling import SegmentStatistics
from mtkit.evaluation.tokenizer_choice import TokenizerChoice
from mtkit.evaluation.word_errors import ERROR_CLASSES, ErrorClassifier, WordError

Ints = NDArray[np.int64]
Words = Sequence[Sequence[str]]  # of each line
ORDERS = (1, 2, 3, 4)  # words of an n-gram
MIN_Z = 2.0  # of what is named: p is about 0.05 for one comparison, and there are many
NUM_NAMED, NUM_CLASSES, NUM_LISTED, NUM_EXAMPLES = 5, 4, 20, 3
FREQUENCIES = (0, 1, 10, 100, 1000)  # lower limits of the groups of words by frequency
NUM_LINES = 3  # that are shown of each kind


@dataclass(frozen=True)
class NgramDifference:
    """An n-gram of the references: occurrences that one system alone has right, and all."""

    ngram: str
    only_first: int
    only_other: int
    total: int
    z: float


@dataclass(frozen=True)
class ErrorDifference:
    """Errors of a class in both systems; z > 0: the second one has more. Examples: those it has more of, or fewer."""

    kind: str
    first: int
    other: int
    z: float
    examples: Sequence[str]

    def sentence(self) -> str:
        """Class, counts and examples."""
        examples = f" ({' · '.join(self.examples)})" if self.examples else ""
        return f"{ERROR_CLASSES[self.kind]} {self.first:,} -> {self.other:,}{examples}"


@dataclass(frozen=True)
class WordGroup:
    """F1 in percent of a group of words in both systems, and the number of such words in the references."""

    name: str
    words: int
    first: float
    other: float


@dataclass(frozen=True)
class ChangedLine:
    """A line whose translation changed, with the scores of both."""

    number: int
    scores: tuple[float, float]
    texts: tuple[str, str]

    @property
    def change(self) -> float:
        """Difference of the scores."""
        return self.scores[1] - self.scores[0]


@dataclass(frozen=True)
class Reasons:
    """Differences of a system from the first one.

    Attributes:
        names: of both systems.
        ngrams: by decreasing |z|.
        lines: those that changed, from the one that gained most to the one that lost most, by chrF2.
    """

    names: tuple[str, str]
    ngrams: Sequence[NgramDifference]
    errors: Sequence[ErrorDifference]
    words: Sequence[WordGroup]
    lines: Sequence[ChangedLine]
    num_lines: int

    def summary(self) -> list[str]:
        """The first lines: how many lines changed, n-grams, classes of errors."""
        first, other = self.names
        better, worse = (sum(line.change * sign > 0 for line in self.lines) for sign in (1, -1))
        same = self.num_lines - better - worse
        lines = [f"{other} against {first}: {better:,} lines better, {worse:,} worse, {same:,} with equal chrF2"]
        for name, sign in ((first, 1), (other, -1)):
            named = [each for each in self.ngrams if each.z * sign >= MIN_Z][:NUM_NAMED]
            counts = (
                f"{each.ngram} ({max(each.only_first, each.only_other)} against "
                f"{min(each.only_first, each.only_other)})"
                for each in named
            )
            if named:
                lines.append(f"  right in {name} alone: {' · '.join(counts)}")
        for word, sign in (("more", 1), ("fewer", -1)):
            classes = [each.sentence() for each in self.errors if each.z * sign >= MIN_Z][:NUM_CLASSES]
            lines += [f"  {word} errors in {other}: {classes[0]}"] if classes else []
            lines += [f"    {each}" for each in classes[1:]]
        return lines if len(lines) > 1 else [*lines, "  no word and no class of errors differs clearly"]

    def tables(self) -> list[Table]:
        """All n-grams, classes and groups of words."""
        first, other = self.names
        errors = [
            [ERROR_CLASSES[e.kind], f"{e.first:,}", f"{e.other:,}", f"{e.z:+.1f}", " · ".join(e.examples)]
            for e in self.errors
        ]
        words = [[w.name, f"{w.words:,}", f"{w.first:.1f}", f"{w.other:.1f}"] for w in self.words]
        ngrams = [
            [n.ngram, f"{n.only_first:,}", f"{n.only_other:,}", f"{n.total:,}", f"{n.z:+.1f}"] for n in self.ngrams
        ]
        return [
            Table(
                ["class of errors", first, other, "z", "most frequent differences"],
                errors,
                text=("class of errors", "most frequent differences"),
                title="Errors in words",
            ),
            Table(
                ["words", "in references", f"F1 {first}", f"F1 {other}"],
                words,
                text=("words",),
                title="Words of a kind that are right",
            ),
            Table(
                ["n-gram", f"only {first}", f"only {other}", "in references", "z"],
                ngrams,
                text=("n-gram",),
                title="N-grams that one system alone has right",
            ),
        ]

    def examples(self, refs: Sequence[str], src: Sequence[str] | None, count: int = NUM_LINES) -> list[str]:
        """The lines that gained and lost most, with the words that differ."""
        shown = []
        for word, sign in (("harmed", -1), ("improved", 1)):
            ordered = self.lines if sign > 0 else self.lines[::-1]
            for line in [each for each in ordered if each.change * sign > 0][:count]:
                shown.append(f"most {word}: line {line.number}: chrF2 {line.scores[0]:.0f} -> {line.scores[1]:.0f}")
                shown += [] if src is None else [f"  source     {src[line.number - 1]}"]
                shown += [f"  change     {marked(*line.texts)}", f"  reference  {refs[line.number - 1]}"]
        return shown

    def as_dict(self) -> dict[str, Any]:
        """For JSON: the tables with all digits."""
        return {
            "system": self.names[1],
            "baseline": self.names[0],
            "ngrams": [asdict(each) for each in self.ngrams],
            "errors": [asdict(each) for each in self.errors],
            "words": [asdict(each) for each in self.words],
        }


def marked(one: str, other: str) -> str:
    """The differences of two texts as wdiff writes them: [-words of the first-] {+words of the second+}."""
    before, after = one.split(), other.split()
    stretches = []
    for tag, i, i2, j, j2 in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag == "equal":
            stretches += before[i:i2]
            continue
        stretches += [f"[-{' '.join(before[i:i2])}-]"] if i < i2 else []
        stretches += [f"{{+{' '.join(after[j:j2])}+}}"] if j < j2 else []
    return " ".join(stretches)


def changed_lines(
    scores: tuple[Sequence[float], Sequence[float]], texts: tuple[Sequence[str], Sequence[str]]
) -> list[ChangedLine]:
    """The lines whose translation changed, from the one that gained most to the one that lost most.

    Args:
        scores: of each line before and after.
        texts: before and after.
    """
    changed = (each for each in enumerate(zip(*scores, *texts, strict=True), start=1) if each[1][2] != each[1][3])
    lines = [ChangedLine(number, (before, after), (one, other)) for number, (before, after, one, other) in changed]
    return sorted(lines, key=lambda line: -line.change)


def reasons_of(
    comparison: Comparison,
    hyps: Mapping[str, Sequence[str]],
    refs: Sequence[Sequence[str]],
    src: Sequence[str] | None = None,
    *,
    train: Sequence[str] | None = None,
) -> list[Reasons]:
    """The reasons why each system differs from the first one.

    Args:
        comparison: of these texts.
        hyps, refs, src: as for `compare`; words are compared with the first reference.
        train: as for WordComparison.
    """
    words = WordComparison(comparison.tokenizer, refs[0], src, train)
    segments = comparison.segments.get("chrf")
    if segments is None:
        metric = CharacterF(comparison.tokenizer, "", False)
        values = metric.statistics([*hyps.values()], refs)
        segments = {name: SegmentStatistics(metric, each) for name, each in zip(hyps, values, strict=True)}
    first, *others = hyps
    scores = {name: segments[name].line_scores() for name in hyps}
    return [
        words.compare(
            (first, other),
            (hyps[first], hyps[other]),
            changed_lines((scores[first], scores[other]), (hyps[first], hyps[other])),
        )
        for other in others
    ]


class WordComparison:
    """Words of the references, and of the source, to compare systems by.

    Args:
        tokenizer: of BLEU for the references.
        refs: the first reference.
        src: the source; None: unknown.
        train: the target side of the training text, which tells frequent from rare words; None: the references do.
    """

    def __init__(
        self,
        tokenizer: TokenizerChoice,
        refs: Sequence[str],
        src: Sequence[str] | None = None,
        train: Sequence[str] | None = None,
    ) -> None:
        self._split = BLEU(tokenize=tokenizer.name, force=True).tokenizer
        self.refs, self.src = self.words(refs), None if src is None else self.words(src)
        self._counts = Counter(word for line in (self.refs if train is None else self.words(train)) for word in line)
        self._of_train = train is not None
        self.classifier = ErrorClassifier(self.refs, self._counts if train is not None else None)

    def words(self, lines: Sequence[str]) -> list[list[str]]:
        """The words of each line."""
        return [self._split(line.rstrip()).split() for line in lines]

    def compare(
        self, names: tuple[str, str], texts: tuple[Sequence[str], Sequence[str]], lines: Sequence[ChangedLine]
    ) -> Reasons:
        """The differences of two systems."""
        hyps = self.words(texts[0]), self.words(texts[1])
        errors = tuple(self.classifier.errors(each, self.refs, self.src) for each in hyps)
        return Reasons(
            names,
            ngram_differences(hyps[0], hyps[1], self.refs),
            error_differences(errors[0], errors[1]),
            self._groups(*hyps),
            lines,
            len(self.refs),
        )

    def _groups(self, *systems: Words) -> list[WordGroup]:
        """F1 of kinds of words."""
        wanted = self._count_groups(self.refs)
        f1 = []
        for system in systems:
            both = [[*(Counter(hyp) & Counter(ref)).elements()] for hyp, ref in zip(system, self.refs, strict=True)]
            right, proposed = self._count_groups(both), self._count_groups(system)
            f1.append({name: 200 * right[name] / (proposed[name] + wanted[name]) for name in wanted})
        names = [name for name in self._names_of_groups() if wanted[name]]
        return [WordGroup(name, wanted[name], f1[0][name], f1[1][name]) for name in names]

    def _count_groups(self, lines: Words) -> Counter[str]:
        """Words of each group."""
        sources = itertools.repeat(frozenset[str]()) if self.src is None else map(frozenset, self.src)
        pairs = zip(lines, sources, strict=False)  # the second one has no end
        words = Counter((word, word in source) for line, source in pairs for word in line)
        counts: Counter[str] = Counter()
        for (word, is_in_source), count in words.items():
            counts.update(dict.fromkeys(self._groups_of(word, is_in_source), count))
        return counts

    def _names_of_groups(self) -> list[str]:
        of = "in the training text" if self._of_train else "in the references"
        return [*(name_of_frequency(each, of) for each in FREQUENCIES), "copied from the source", "numbers"]

    def _groups_of(self, word: str, is_in_source: bool) -> list[str]:
        of = "in the training text" if self._of_train else "in the references"
        limit = max((each for each in FREQUENCIES if self._counts[word] >= each), default=0)
        groups = [name_of_frequency(limit, of)]
        if any(map(str.isdigit, word)):
            groups.append("numbers")
        elif is_in_source and any(map(str.isalpha, word)):
            groups.append("copied from the source")
        return groups


def name_of_frequency(limit: int, of: str) -> str:
    """The name of a group of words by frequency."""
    if limit == 0:
        return f"not {of}"
    following = [each for each in FREQUENCIES if each > limit]
    high = f" to {following[0] - 1:,}" if following else " or more"
    return f"{limit:,}{high} {of}"


def ngram_differences(one: Words, other: Words, refs: Words) -> list[NgramDifference]:
    """N-grams of the references that one system alone has right, by decreasing |z|, without those that say the same.

    An n-gram that contains or is part of one with a larger |z| is left out.
    """
    only_first, only_other, total = Counter[tuple[str, ...]](), Counter[tuple[str, ...]](), Counter[tuple[str, ...]]()
    changed = (each for each in zip(one, other, refs, strict=True) if each[0] != each[1])
    for lines, n in itertools.product(changed, ORDERS):
        mine, others, wanted = (Counter(_ngrams(words, n)) for words in lines)
        for ngram, count in wanted.items():
            difference = min(count, mine[ngram]) - min(count, others[ngram])
            if difference > 0:
                only_first[ngram] += difference
            elif difference < 0:
                only_other[ngram] -= difference
    scored = [
        (each, (only_first[each] - only_other[each]) / (only_first[each] + only_other[each]) ** 0.5)
        for each in only_first | only_other
    ]
    scored.sort(key=lambda each: (-abs(each[1]), len(each[0]), each[0]))
    chosen: list[tuple[tuple[str, ...], float]] = []
    for ngram, z in scored:
        if len(chosen) == NUM_LISTED or abs(z) < 1:
            break
        text = f" {' '.join(ngram)} "
        if not any(text in f" {' '.join(each)} " or f" {' '.join(each)} " in text for each, _ in chosen):
            chosen.append((ngram, z))
    wanted_ngrams = {ngram for ngram, _ in chosen}
    for ref in refs:
        for n in {len(ngram) for ngram in wanted_ngrams}:
            total.update(each for each in _ngrams(ref, n) if each in wanted_ngrams)
    return [NgramDifference(" ".join(each), only_first[each], only_other[each], total[each], z) for each, z in chosen]


def _ngrams(words: Sequence[str], order: int) -> Iterator[tuple[str, ...]]:
    return zip(*(words[start:] for start in range(order)), strict=False)


def error_differences(
    one: Sequence[Sequence[WordError]], other: Sequence[Sequence[WordError]]
) -> list[ErrorDifference]:
    """Classes of errors by decreasing |z| of the difference, with examples."""
    sums, squares = Counter[str](), Counter[str]()
    counts: list[Counter[str]] = [Counter(), Counter()]
    differences_of: dict[str, Counter[WordError]] = {kind: Counter() for kind in ERROR_CLASSES}
    for lines in zip(one, other, strict=True):
        of_line: Counter[str] = Counter()
        for sign, system, errors in zip((-1, 1), counts, lines, strict=True):
            for error in errors:
                system[error.kind] += 1
                of_line[error.kind] += sign
                differences_of[error.kind][error] += sign
        for kind, difference in of_line.items():
            sums[kind] += difference
            squares[kind] += difference**2
    differences = []
    for kind, errors_of_kind in differences_of.items():
        if not errors_of_kind:
            continue
        sign = 1 if sums[kind] >= 0 else -1
        examples = [(sign * n, str(error)) for error, n in errors_of_kind.items() if sign * n > 0]
        examples.sort(key=lambda example: (-example[0], example[1]))
        texts = [f"{text} ×{n}" if n > 1 else text for n, text in examples[:NUM_EXAMPLES]]
        z = sums[kind] / max(1, squares[kind]) ** 0.5
        differences.append(ErrorDifference(kind, counts[0][kind], counts[1][kind], z, texts))
    return sorted(differences, key=lambda each: -abs(each.z))
