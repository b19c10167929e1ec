"""Reasons for a difference between two systems: words and n-grams, kinds of words, classes of errors, lines.

N-grams that one system has right and the other lacks are those of compare-mt (Neubig et al. 2019,
https://aclanthology.org/N19-4007/), ranked here by the statistic of McNemar (1947): of the occurrences that one system
alone has right, (a - b) / sqrt(a + b), which is about normal for equally good systems. Counts of errors are compared in
the same way, by the sum of the differences of all lines over the root of the sum of their squares.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mtkit.display import Table
from mtkit.evaluation.comparison import Comparison
from mtkit.evaluation.metrics import CharacterF, bleu_tokenizer
from mtkit.evaluation.ngrams import count_ngrams, no_garbage_collection
from mtkit.evaluation.resampling import SegmentStatistics
from mtkit.evaluation.tokenizer_choice import TokenizerChoice
from mtkit.evaluation.word_errors import ERROR_CLASSES, ErrorClassifier, WordError

Ints = NDArray[np.int64]
Words = Sequence[Sequence[str]]  # of each line
NGRAM_ORDER = 4  # words of the longest n-gram
MIN_Z = 2.0  # of what is named: p is about 0.05 for one comparison, and there are many
NUM_NAMED, NUM_CLASSES, NUM_LISTED, NUM_EXAMPLES = 5, 4, 20, 3
FREQUENCIES = (0, 1, 10, 100, 1000)  # lower limits of the groups of words by frequency
NUM_LINES = 3  # that are shown of each kind
MAX_COMPARED = 1000  # words of a line; the time to compare them grows with the square
MAX_STRETCH = 60  # words of a stretch that is shown whole


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

    def most_changed(self, count: int = NUM_LINES) -> Iterator[tuple[str, ChangedLine]]:
        """The lines that lost and those that gained most, at most `count` of each, with a heading."""
        for word, sign in (("harmed", -1), ("improved", 1)):
            ordered = self.lines if sign > 0 else self.lines[::-1]
            for line in [each for each in ordered if each.change * sign > 0][:count]:
                yield f"most {word}: line {line.number}: chrF2 {line.scores[0]:.0f} -> {line.scores[1]:.0f}", line

    def examples(self, refs: Sequence[str], src: Sequence[str] | None, count: int = NUM_LINES) -> list[str]:
        """The lines that changed most, with the words that differ."""
        shown = []
        for heading, line in self.most_changed(count):
            shown += [heading] if src is None else [heading, f"  source     {src[line.number - 1]}"]
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


class SystemWords(NamedTuple):
    """Words and errors of each line of a system."""

    words: Words
    errors: Sequence[Sequence[WordError]]


def differences(one: str, other: str) -> list[tuple[str, str]]:
    """Stretches of words of two texts: ("del", of the first), ("ins", of the second), ("", of both).

    Of a long stretch only the words beside a difference are kept, and long texts are not compared word by word.
    """
    before, after = one.split(), other.split()
    start = next(
        (n for n, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), min(len(before), len(after))
    )
    before_end, after_end = len(before), len(after)
    while min(before_end, after_end) > start and before[before_end - 1] == after[after_end - 1]:
        before_end, after_end = before_end - 1, after_end - 1
    middle = before[start:before_end], after[start:after_end]
    matcher = difflib.SequenceMatcher(None, *middle, autojunk=False)
    is_short = max(map(len, middle)) <= MAX_COMPARED
    codes = matcher.get_opcodes() if is_short else [("replace", 0, len(middle[0]), 0, len(middle[1]))]
    stretches = [("", before[:start])]
    for tag, i, i2, j, j2 in codes:
        if tag == "equal":
            stretches.append(("", middle[0][i:i2]))
        else:
            stretches += [("del", middle[0][i:i2]), ("ins", middle[1][j:j2])]
    stretches.append(("", before[before_end:]))
    half = MAX_STRETCH // 2
    return [
        (tag, " ".join(words if len(words) <= MAX_STRETCH else [*words[:half], "…", *words[-half:]]))
        for tag, words in stretches
        if words
    ]


def marked(one: str, other: str) -> str:
    """The differences of two texts as wdiff writes them: [-words of the first-] {+words of the second+}."""
    forms = {"del": "[-{}-]", "ins": "{{+{}+}}", "": "{}"}
    return " ".join(forms[tag].format(words) for tag, words in differences(one, other))


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


@no_garbage_collection()
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
    baseline = words.read(hyps[first])
    scores = {name: segments[name].line_scores() for name in hyps}
    return [
        words.compare(
            (first, other),
            (baseline, words.read(hyps[other])),
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
        self._split = bleu_tokenizer(tokenizer.name)
        self.refs, self.src = self.words(refs), None if src is None else self.words(src)
        self._counts = Counter(word for line in (self.refs if train is None else self.words(train)) for word in line)
        self._of_train = train is not None
        self._group_of = cache(self._find_groups)
        self.classifier = ErrorClassifier(self.refs, self._counts if train is not None else None)

    def words(self, lines: Sequence[str]) -> list[list[str]]:
        """The words of each line."""
        return [self._split(line.rstrip()).split() for line in lines]

    def read(self, text: Sequence[str]) -> SystemWords:
        """Words and errors of a system."""
        words = self.words(text)
        return SystemWords(words, self.classifier.errors(words, self.refs, self.src))

    def compare(
        self, names: tuple[str, str], systems: tuple[SystemWords, SystemWords], lines: Sequence[ChangedLine]
    ) -> Reasons:
        """The differences of two systems."""
        one, other = systems
        return Reasons(
            names,
            ngram_differences(one.words, other.words, self.refs),
            error_differences(one.errors, other.errors),
            self._groups(one.words, other.words),
            lines,
            len(self.refs),
        )

    def _groups(self, *systems: Words) -> list[WordGroup]:
        """F1 of kinds of words."""
        of = "in the training text" if self._of_train else "in the references"
        names = [*(name_of_frequency(each, of) for each in FREQUENCIES), "copied from the source", "numbers", ""]
        wanted, (right, proposed) = np.zeros(len(names)), np.zeros((2, len(systems), len(names)))
        for ngrams in count_ngrams([self.refs, *systems, *([] if self.src is None else [self.src])], 1):
            words = [ngrams.units[start] for start in ngrams.starts.tolist()]
            groups = np.array([self._group_of(word) for word in words])  # [R, 2]
            copied = ngrams.counts[:, -1] > 0 if self.src is not None else np.zeros(len(words), dtype=bool)
            groups[~copied & (groups[:, 1] == names.index("copied from the source")), 1] = len(names) - 1
            of_ref = ngrams.counts[:, 0]
            for column in groups.T:
                wanted += np.bincount(column, of_ref, len(names))
                for system, counts in enumerate(ngrams.counts[:, 1 : 1 + len(systems)].T):
                    right[system] += np.bincount(column, np.minimum(counts, of_ref), len(names))
                    proposed[system] += np.bincount(column, counts, len(names))
        f1 = 200 * right / np.maximum(1, proposed + wanted)
        named = [number for number, name in enumerate(names) if name and wanted[number]]
        return [WordGroup(names[each], int(wanted[each]), *f1[:, each].tolist()) for each in named]

    def _find_groups(self, word: str) -> tuple[int, int]:
        """Numbers of a word's groups by frequency and by kind; copied words are those that stand in the source too."""
        by_frequency = sum(self._counts[word] >= limit for limit in FREQUENCIES) - 1
        if any(map(str.isdigit, word)):
            return by_frequency, len(FREQUENCIES) + 1
        return by_frequency, len(FREQUENCIES) + (0 if any(map(str.isalpha, word)) else 2)


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
    names, by_order = _differing_ngrams(one, other, refs)
    counts = np.concatenate([each for _, each in by_order])  # [M, 2] right in one system alone
    z = (counts[:, 0] - counts[:, 1]) / np.sqrt(counts.sum(1))
    place = np.concatenate([np.arange(len(rows)) for rows, _ in by_order])
    order = np.repeat(np.arange(NGRAM_ORDER), [len(rows) for rows, _ in by_order])
    chosen: dict[tuple[str, ...], int] = {}
    for each in np.lexsort((order, -np.abs(z))).tolist():
        if len(chosen) == NUM_LISTED or abs(z[each]) < 1:
            break
        ngram = tuple(names[word] for word in by_order[order[each]][0][place[each]])
        text = f" {' '.join(ngram)} "
        if not any(text in f" {' '.join(other)} " or f" {' '.join(other)} " in text for other in chosen):
            chosen[ngram] = each
    total, by_word = Counter[tuple[str, ...]](), dict[str, list[tuple[str, ...]]]()
    for ngram in chosen:
        by_word.setdefault(ngram[0], []).append(ngram)
    for ref in refs:
        for start in (number for number, word in enumerate(ref) if word in by_word):
            total.update(each for each in by_word[ref[start]] if tuple(ref[start : start + len(each)]) == each)
    return [
        NgramDifference(" ".join(ngram), int(counts[each, 0]), int(counts[each, 1]), total[ngram], float(z[each]))
        for ngram, each in chosen.items()
    ]


def _differing_ngrams(one: Words, other: Words, refs: Words) -> tuple[list[str], list[tuple[Ints, Ints]]]:
    """Words, and of each order the M n-grams [M, order] with the occurrences [M, 2] that one system alone has right."""
    changed = [number for number, pair in enumerate(zip(one, other, strict=True)) if pair[0] != pair[1]]
    ids: dict[str, int] = {}
    found: list[list[tuple[Ints, Ints]]] = [[] for _ in range(NGRAM_ORDER)]
    for ngrams in count_ngrams([[text[number] for number in changed] for text in (refs, one, other)], NGRAM_ORDER):
        if ngrams.order == 1:
            words = np.array([ids.setdefault(word, len(ids)) for word in ngrams.units], dtype=np.int64)
        right = np.minimum(ngrams.counts[:, :1], ngrams.counts[:, 1:])
        alone = np.maximum(0, right - right[:, ::-1])
        differing = np.flatnonzero(alone.any(1))
        places = ngrams.starts[differing, None] + np.arange(ngrams.order)
        found[ngrams.order - 1].append((words[places], alone[differing]))
    by_order = []
    for order, of_blocks in enumerate(found, start=1):
        rows = np.concatenate([np.empty((0, order), np.int64), *(rows for rows, _ in of_blocks)])
        counts = np.concatenate([np.empty((0, 2), np.int64), *(each for _, each in of_blocks)])
        keys = rows[:, 0]
        for column in rows.T[1:]:
            keys = np.unique(keys * len(ids) + column, return_inverse=True)[1]
        _, first, keys = np.unique(keys, return_index=True, return_inverse=True)
        sums = [np.bincount(keys, each, len(first)).astype(np.int64) for each in counts.T]
        by_order.append((rows[first], np.stack(sums, axis=1)))
    return [*ids], by_order


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
