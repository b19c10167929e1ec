"""Metrics of translations: their interface, and those of sacreBLEU for the script of the references.

A metric is a class below `Metric` and a row in the table of `evaluation/config.py`.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
import sacrebleu.metrics.base
from numpy.typing import NDArray
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from mtkit.config import load_class
from mtkit.evaluation.config import METRICS, MetricName
from mtkit.evaluation.ngrams import Texts, count_ngrams, lengths_of
from mtkit.evaluation.tokenizer_choice import SacrebleuTokenizer, Script, TokenizerChoice, choose_tokenizer

Array = NDArray[np.float64]
MAX_SHIFTED_WORDS = 200
_BLOCK_LINES = 4096  # bounds memory: the n-grams of a line of references take about 20 kB

# what TER counts with sacreBLEU's options for Chinese and Japanese; asian_support alone has no effect
_TER_WORDS: dict[Script | None, str] = {
    "Chinese": "each Chinese character as a word",
    "Japanese": "each kanji and each run of kana as a word",
}


class UnsuitableMetricError(Exception):
    """A metric counts words by the spaces between them, and the script has none; with a sentence for the user."""


class Metric(ABC):
    """A metric whose score of any set of segments is a function of sums over them, as intervals and tests need it.

    It is built with the tokenizer of BLEU for the references, the language of Moses tokens, and whether the case of
    letters is ignored. A metric that does not suit the script raises UnsuitableMetricError.

    Attributes:
        notes: sentences for the user about how the metric counts, and after `statistics` about the lines counted.
    """

    def __init__(self, tokenizer: TokenizerChoice, lang: str, lowercase: bool) -> None:
        self.notes: list[str] = []

    @abstractmethod
    def statistics(self, systems: Sequence[Sequence[str]], refs: Sequence[Sequence[str]]) -> list[Array]:
        """Sufficient statistics [N, K] of the N translations of each system.

        Args:
            systems: translations of each system.
            refs: one or more references, each with the same number of lines.
        """

    @abstractmethod
    def score(self, sums: list[float]) -> float:
        """Score in percent of a set of segments, given the sums of their K statistics."""

    def line_score(self, values: list[float]) -> float:
        """Score in percent of one segment, given its K statistics."""
        return self.score(values)

    @abstractmethod
    def signature(self, num_samples: int | None = None, seed: int = 0) -> str:
        """Settings of the metric in one line, after `statistics`.

        Args:
            num_samples: samples of a bootstrap interval; None: there is none.
            seed: of the samples.
        """


class SacrebleuMetric(Metric):
    """A metric of sacreBLEU. Its statistics of segments have no public interface.

    Args:
        metric: sacreBLEU's metric, without references.
        prepare: applied to lines before the metric sees them.
    """

    def __init__(
        self, metric: sacrebleu.metrics.base.Metric, prepare: Callable[[Sequence[str]], list[str]] = list
    ) -> None:
        self.notes = []
        self.metric = metric
        self._prepare = prepare

    def statistics(self, systems: Sequence[Sequence[str]], refs: Sequence[Sequence[str]]) -> list[Array]:
        """See Metric; the n-grams of a reference are counted once for all systems."""
        blocks: list[list[Array]] = [[] for _ in systems]
        for start in range(0, len(refs[0]), _BLOCK_LINES):
            block = slice(start, start + _BLOCK_LINES)
            self.metric._ref_cache = self.metric._cache_references([self._prepare(ref[block]) for ref in refs])
            for values, hyps in zip(blocks, systems, strict=True):
                statistics = self.metric._extract_corpus_statistics(self._prepare(hyps[block]), None)
                values.append(np.array(statistics, dtype=np.float64))
        self.metric._ref_cache = None
        return [np.concatenate(values) for values in blocks]

    def score(self, sums: list[float]) -> float:
        """See Metric."""
        return float(self.metric._aggregate_and_compute([sums]).score)

    def line_score(self, values: list[float]) -> float:
        """See Metric; BLEU counts the n-gram orders that the line has, as sacreBLEU's sentence score."""
        if not isinstance(self.metric, BLEU):
            return self.score(values)
        (hyp, ref, *counts), order = [int(value) for value in values], self.metric.max_ngram_order
        score = BLEU.compute_bleu(counts[:order], counts[order:], hyp, ref, smooth_method="exp", effective_order=True)
        return float(score.score)

    def signature(self, num_samples: int | None = None, seed: int = 0) -> str:
        """Signature of sacreBLEU."""
        if num_samples is not None:
            self.metric.n_bootstrap, self.metric.seed = num_samples, str(seed)
        return str(self.metric.get_signature())


class BLEUMetric(SacrebleuMetric):
    """BLEU, whose n-grams are counted for all systems and lines at once."""

    metric: BLEU

    def statistics(self, systems: Sequence[Sequence[str]], refs: Sequence[Sequence[str]]) -> list[Array]:
        """See Metric; [N, 10]: lengths of translation and closest reference, matches and n-grams of each order."""
        self.metric.num_refs = len(refs)
        prepared = map(self._prepare, (*refs, *systems))
        texts = [[self.metric._preprocess_segment(line).split() for line in lines] for lines in prepared]
        lengths, order = lengths_of(texts), self.metric.max_ngram_order
        of_refs, of_systems = lengths[: len(refs)], lengths[len(refs) :]
        distance = 2 * abs(of_systems[:, None] - of_refs) + (of_refs > of_systems[:, None])  # a shorter one is closer
        closest = np.take_along_axis(of_refs, distance.argmin(1), axis=0)
        values = np.zeros((len(systems), len(refs[0]), 2 + 2 * order))
        values[..., 0], values[..., 1] = of_systems, closest
        for n in range(order):
            values[..., 2 + order + n] = np.maximum(of_systems - n, 0)
        for ngrams in count_ngrams(texts, order):
            wanted = ngrams.counts[:, : len(refs)].max(1)
            for counts, of_system in zip(ngrams.counts[:, len(refs) :].T, values, strict=True):
                of_system[:, 1 + ngrams.order] += ngrams.sum_by_line(np.minimum(wanted, counts), len(of_system))
        return [*values]


class CharacterFMetric(SacrebleuMetric):
    """chrF, whose n-grams are counted for all systems and lines at once."""

    metric: CHRF

    def statistics(self, systems: Sequence[Sequence[str]], refs: Sequence[Sequence[str]]) -> list[Array]:
        """See Metric; [N, 3 x orders]: n-grams of the translation and of its best reference, and matches."""
        self.metric.num_refs = len(refs)
        lines = [[self.metric._preprocess_segment(line) for line in text] for text in (*refs, *systems)]
        values = np.zeros((len(systems), len(refs), len(refs[0]), self.metric.order, 3))
        self._add(values, [["".join(line.split()) for line in text] for text in lines], self.metric.char_order)
        if self.metric.word_order:
            words = [[self.metric._remove_punctuation(line) for line in text] for text in lines]
            self._add(values[..., self.metric.char_order :, :], words, self.metric.word_order)
        rows = values.reshape(*values.shape[:3], -1)
        if len(refs) == 1:
            return [*rows[:, 0]]
        scores = [[[*map(self.metric._compute_f_score, line.tolist())] for line in each] for each in rows]
        best = np.array(scores).argmax(1)
        return [*np.take_along_axis(rows, best[:, None, :, None], axis=1)[:, 0]]

    def _add(self, values: Array, texts: Texts, max_order: int) -> None:
        """Add the counts of n-grams of words or characters to [systems, refs, N, orders, 3]."""
        num_systems, num_refs, num_lines = values.shape[:3]
        lengths = lengths_of(texts)
        for n in range(max_order):
            counts = np.maximum(lengths - n, 0)
            values[..., n, 1] = counts[:num_refs]
            values[..., n, 0] = counts[num_refs:, None] * (counts[:num_refs] > 0)  # as sacreBLEU
        for ngrams in count_ngrams(texts, max_order):
            for system, ref in itertools.product(range(num_systems), range(num_refs)):
                matches = np.minimum(ngrams.counts[:, num_refs + system], ngrams.counts[:, ref])
                values[system, ref, :, ngrams.order - 1, 2] += ngrams.sum_by_line(matches, num_lines)


def bleu_tokenizer(name: SacrebleuTokenizer) -> Callable[[str], str]:
    """sacreBLEU's tokenizer of lines, into words with spaces between.

    13a changes each word between spaces alone, so that its result for a word can be kept: words recur, lines do not.
    """
    tokenizer: Callable[[str], str] = BLEU(tokenize=name, force=True).tokenizer
    if name != "13a":
        return tokenizer
    of_word = lru_cache(maxsize=1_000_000)(tokenizer)
    return lambda line: tokenizer(line) if "\n" in line else " ".join(map(of_word, line.split()))


# `force` of BLEU suppresses sacreBLEU's warning of tokenized text; see plausibility.py
class DetokenizedBLEU(BLEUMetric):
    """BLEU on detokenized text."""

    def __init__(self, tokenizer: TokenizerChoice, lang: str, lowercase: bool) -> None:
        super().__init__(BLEU(tokenize=tokenizer.name, lowercase=lowercase, force=True))
        self.metric.tokenizer = bleu_tokenizer(tokenizer.name)
        self.notes += [tokenizer.note] if tokenizer.note else []


class MosesBLEU(BLEUMetric):
    """BLEU on lower-cased Moses tokens.

    Raises:
        MissingExtraError: sacremoses is not installed.
    """

    def __init__(self, tokenizer: TokenizerChoice, lang: str, lowercase: bool) -> None:
        _require_spaces(tokenizer, "BLEU on Moses tokens")
        METRICS["moses"].require_installed()
        super().__init__(BLEU(tokenize="none", lowercase=True, force=True), partial(moses_tokens, lang=lang))


class CharacterF(CharacterFMetric):
    """chrF2, on characters."""

    def __init__(self, tokenizer: TokenizerChoice, lang: str, lowercase: bool) -> None:
        super().__init__(CHRF(lowercase=lowercase))


class CharacterAndWordF(CharacterFMetric):
    """chrF2++, on characters and words."""

    def __init__(self, tokenizer: TokenizerChoice, lang: str, lowercase: bool) -> None:
        _require_spaces(tokenizer, "chrF2++", "; chrF2 counts characters only")
        super().__init__(CHRF(word_order=2, lowercase=lowercase))


class EditRate(SacrebleuMetric):
    """Translation edit rate, which ignores case by default; lower is better."""

    def __init__(self, tokenizer: TokenizerChoice, lang: str, lowercase: bool) -> None:
        words = _TER_WORDS.get(tokenizer.script)
        if words is None:
            _require_spaces(tokenizer, "TER")
        super().__init__(BoundedTER(normalized=words is not None, asian_support=words is not None))
        if words is not None:
            options = "(sacreBLEU's options normalized and asian_support)"
            self.notes.append(f"TER counts {words} {options}, since " + tokenizer.reason)

    def statistics(self, systems: Sequence[Sequence[str]], refs: Sequence[Sequence[str]]) -> list[Array]:
        """See Metric."""
        values = super().statistics(systems, refs)
        if isinstance(self.metric, BoundedTER) and self.metric.has_long_lines:
            limit = f"TER: lines of more than {MAX_SHIFTED_WORDS} words"
            self.notes.append(f"{limit} are compared without shifts, which would take minutes")
        return values


class ExternalMetric(Metric):
    """The mean of the numbers that another program has given to each line.

    Args:
        name: in reports.
        numbers: of each line, by system.
        higher_is_better: whether the best system has the highest mean.
        source: file or command that the numbers are from.
    """

    def __init__(
        self, name: str, numbers: Mapping[str, Sequence[float]], *, higher_is_better: bool = True, source: str = ""
    ) -> None:
        self.notes = []
        self.name, self.numbers, self.higher_is_better, self.source = name, numbers, higher_is_better, source

    def statistics(self, systems: Sequence[Sequence[str]], refs: Sequence[Sequence[str]]) -> list[Array]:
        """See Metric; [N, 2]: the number of each line, and 1."""
        return [np.stack([np.array(each), np.ones(len(each))], axis=1) for each in self.numbers.values()]

    def score(self, sums: list[float]) -> float:
        """See Metric."""
        return sums[0] / sums[1]

    def signature(self, num_samples: int | None = None, seed: int = 0) -> str:
        """See Metric."""
        sampled = "" if num_samples is None else f"|bs:{num_samples}|seed:{seed}"
        return f"mean of lines{sampled}|{'higher' if self.higher_is_better else 'lower'} is better|from:{self.source}"


def _require_spaces(tokenizer: TokenizerChoice, heading: str, remark: str = "") -> None:
    if tokenizer.is_unspaced:
        reason = "since it counts words by spaces and " + tokenizer.reason
        raise UnsuitableMetricError(f"{heading} is left out, {reason}{remark}")


class BoundedTER(TER):
    """TER in bounded time: lines of more than MAX_SHIFTED_WORDS words are compared by word edits without shifts.

    sacreBLEU's search for shifts takes 8 s for a line of 200 words, a minute for one of 1,500.
    """

    has_long_lines = False

    def _compute_segment_statistics(self, hypothesis: str, ref_kwargs: dict[str, list[list[str]]]) -> list[float]:
        words, refs = hypothesis.split(), ref_kwargs["ref_words"]
        if max(map(len, (words, *refs))) <= MAX_SHIFTED_WORDS:
            return super()._compute_segment_statistics(hypothesis, ref_kwargs)
        self.has_long_lines = True
        return [min(_edit_distance(words, ref) for ref in refs), sum(map(len, refs)) / len(refs)]


def _edit_distance(words: Sequence[str], ref: Sequence[str]) -> int:
    """Levenshtein's distance of two lists of words, one row of its table at a time."""
    ids = {word: number for number, word in enumerate(ref)}
    columns, place = np.array([ids[word] for word in ref], dtype=np.int64), np.arange(len(ref) + 1)
    row = place
    for word in words:
        replaced = row[:-1] + (columns != ids.get(word, -1))
        best = np.minimum(row + 1, np.concatenate([row[:1] + 1, replaced]))
        row = np.minimum.accumulate(best - place) + place  # a word of the reference inserted after any cell of the row
    return int(row[-1])


@dataclass(frozen=True)
class MetricChoice:
    """Metrics that suit the script of the references.

    Attributes:
        metrics: requested metrics by name, except those that count words by spaces where the script has none.
        remarks: sentences for the user about each of the others, and about lower-casing.
    """

    metrics: dict[MetricName, Metric]
    tokenizer: TokenizerChoice
    remarks: tuple[str, ...]

    @property
    def notes(self) -> list[str]:
        """Sentences for the user about the tokenizer, the metrics that are left out, and the lines counted so far."""
        return [note for metric in self.metrics.values() for note in metric.notes] + [*self.remarks]


def choose_metrics(
    refs: Sequence[Sequence[str]],
    names: Sequence[MetricName],
    *,
    tgt_lang: str | None = None,
    tokenize: SacrebleuTokenizer = "auto",
    lowercase: bool = False,
) -> MetricChoice:
    """Choose the tokenizer of BLEU, and leave out metrics that do not suit the script.

    Args:
        refs: one or more references.
        names: the requested metrics.
        tgt_lang: code of the target language; None: unknown.
        tokenize: the tokenizer of BLEU; auto: by language and script.
        lowercase: whether BLEU and chrF ignore the case of letters.

    Raises:
        MissingExtraError: `names` has moses and sacremoses is not installed, or the tokenizer is not.
    """
    tokenizer = choose_tokenizer((line for ref in refs for line in ref), tgt_lang, tokenize)
    metrics: dict[MetricName, Metric] = {}
    remarks = []
    for name in names:
        try:
            metrics[name] = load_class(METRICS[name].builds)(tokenizer, tgt_lang or "en", lowercase)
        except UnsuitableMetricError as error:
            remarks.append(str(error))
    if lowercase and metrics:
        remarks.append("scores are lower-cased: capitals of translations and references are ignored")
    return MetricChoice(metrics, tokenizer, tuple(remarks))


def moses_tokens(lines: Sequence[str], lang: str) -> list[str]:
    """The Moses tokens of each line, joined by spaces; nothing is escaped and the case is kept.

    Args:
        lang: language of the abbreviations; an unknown language is tokenized as English.

    Raises:
        MissingExtraError: sacremoses is not installed.
    """
    METRICS["moses"].require_installed()
    from sacremoses import MosesTokenizer

    tokenizer = MosesTokenizer(lang=lang)
    return [tokenizer.tokenize(line, escape=False, return_str=True) for line in lines]
