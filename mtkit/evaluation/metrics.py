"""The metrics of sacreBLEU for the script of the references."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from mtkit.errors import MissingExtraError
from mtkit.evaluation.config import MetricName
from mtkit.evaluation.resampling import SegmentStatistics, segment_statistics
from mtkit.evaluation.tokenizer_choice import (
    SacrebleuTokenizer,
    Script,
    TokenizerChoice,
    choose_tokenizer,
    is_unspaced_script,
    preferred_tokenizer,
    script_share,
)

# what TER counts with sacreBLEU's options for Chinese and Japanese; asian_support alone has no effect
_TER_WORDS: dict[Script | None, str] = {
    "Chinese": "each Chinese character as a word",
    "Japanese": "each kanji and each run of kana as a word",
}
MAX_SHIFTED_WORDS = 200
SAMPLE_LINES = 2000  # of a test set, taken evenly, on which tokenizers are compared: about 0.1 s for each
MIN_MIXED_SHARE = 0.02  # of the letters; a name or a quotation in another script changes little
MIN_DIFFERENCE = 2.0  # BLEU; about the width of a 95% interval of 1,000 sentences
_UNSPACED_TOKENIZERS = ("zh", "ja-mecab", "char", "flores200")
_UNICODE_PUNCTUATION = re.compile("[\u00a1-\u00bf\u0589-\u061f\u06d4\u0964\u0965\u2010-\u203e\u2e00-\u2e5d]")


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
class SegmentMetric:
    """A metric whose statistics are counted for each segment.

    Attributes:
        moses_lang: language of the Moses tokens that the metric counts; None: it counts raw text.
    """

    metric: Metric
    moses_lang: str | None = None

    def statistics(self, systems: Sequence[Sequence[str]], refs: Sequence[Sequence[str]]) -> list[SegmentStatistics]:
        """The statistics of each translation of each system."""
        return segment_statistics(self.metric, systems, refs, self._tokenize)

    def notes(self) -> list[str]:
        """Sentences for the user about the lines that were counted."""
        if not isinstance(self.metric, BoundedTER) or not self.metric.has_long_lines:
            return []
        return [
            f"TER: lines of more than {MAX_SHIFTED_WORDS} words are compared without shifts, which would take minutes"
        ]

    def _tokenize(self, lines: Sequence[str]) -> list[str]:
        return list(lines) if self.moses_lang is None else moses_tokens(lines, self.moses_lang)


@dataclass(frozen=True)
class MetricChoice:
    """Metrics that suit the script of the references.

    Attributes:
        names: requested metrics, except those that count words by spaces where the script has none.
        notes: sentences for the user about the tokenizer, and about metrics that are left out.
        lang: language of Moses tokens.
    """

    names: tuple[MetricName, ...]
    tokenizer: TokenizerChoice
    notes: tuple[str, ...]
    lang: str

    def build(self) -> dict[MetricName, SegmentMetric]:
        """The metrics by name."""
        return {name: self._build(name) for name in self.names}

    def _build(self, name: MetricName) -> SegmentMetric:
        # `force` suppresses sacreBLEU's warning of tokenized text; see plausibility.py
        if name == "bleu":
            return SegmentMetric(BLEU(tokenize=self.tokenizer.name, force=True))
        if name == "ter":
            is_split = self.tokenizer.script in _TER_WORDS
            return SegmentMetric(BoundedTER(normalized=is_split, asian_support=is_split))
        if name == "moses":
            return SegmentMetric(BLEU(tokenize="none", lowercase=True, force=True), self.lang)
        return SegmentMetric(CHRF(word_order=2 if name == "chrf++" else 0))


def choose_metrics(
    refs: Sequence[Sequence[str]],
    metrics: Sequence[MetricName],
    *,
    tgt_lang: str | None = None,
    tokenize: SacrebleuTokenizer = "auto",
) -> MetricChoice:
    """Choose the tokenizer of BLEU, and leave out metrics that do not suit the script.

    Raises:
        MissingExtraError: `metrics` has moses and sacremoses is not installed, or the tokenizer is not.
    """
    tokenizer = choose_tokenizer((line for ref in refs for line in ref), tgt_lang, tokenize)
    unsuitable = _unsuitable_metrics(tokenizer)
    notes = [tokenizer.note] if tokenizer.note and "bleu" in metrics else []
    notes += [unsuitable[metric] for metric in metrics if metric in unsuitable]
    if "ter" in metrics and tokenizer.script in _TER_WORDS:
        words, reason = _TER_WORDS[tokenizer.script], tokenizer.reason
        notes.append(f"TER counts {words} (sacreBLEU's options normalized and asian_support), since {reason}")
    names = tuple(metric for metric in metrics if metric not in unsuitable)
    if "moses" in names:
        require_moses()
    return MetricChoice(names, tokenizer, tuple(notes), tgt_lang or "en")


def _unsuitable_metrics(tokenizer: TokenizerChoice) -> dict[MetricName, str]:
    """Metrics that count words by the spaces between them although the script has none, each with a sentence."""
    if not tokenizer.is_unspaced:
        return {}
    reason = "since it counts words by spaces and " + tokenizer.reason
    metrics: dict[MetricName, str] = {
        "moses": f"BLEU on Moses tokens is left out, {reason}",
        "chrf++": f"chrF2++ is left out, {reason}; chrF2 counts characters only",
    }
    if tokenizer.script not in _TER_WORDS:
        metrics["ter"] = f"TER is left out, {reason}"
    return metrics


def tokenizer_sensitivity(hyps: Sequence[str], refs: Sequence[Sequence[str]], tokenizer: TokenizerChoice) -> str | None:
    """A sentence if another tokenizer that may suit the text changes BLEU by at least MIN_DIFFERENCE, or None.

    Tokenizers are compared on at most SAMPLE_LINES lines, and only if the script of the references suggests another
    one: letters without spaces between words in a text that counts as spaced, or the reverse, or punctuation outside
    ASCII, which 13a does not separate from words.

    Args:
        refs: one or more references, each with the same number of lines.
    """
    step = -(-len(hyps) // SAMPLE_LINES)
    sample, sampled_refs = list(hyps[::step]), [list(ref[::step]) for ref in refs]
    scores: dict[SacrebleuTokenizer, float] = {}
    chosen = tokenizer.name
    for name, reason in _alternatives(sampled_refs, tokenizer):
        for each in {chosen, name} - scores.keys():
            scores[each] = float(BLEU(tokenize=each, force=True).corpus_score(sample, sampled_refs).score)
        if abs(scores[name] - scores[chosen]) >= MIN_DIFFERENCE:
            return (
                f"BLEU depends on the tokenizer: on {len(sample):,} lines {scores[chosen]:.1f} with "
                f"{chosen} and {scores[name]:.1f} with {name}, since {reason}; choose one with --tokenize or "
                "evaluation.tokenize"
            )
    return None


def _alternatives(
    refs: Sequence[Sequence[str]], tokenizer: TokenizerChoice
) -> Iterator[tuple[SacrebleuTokenizer, str]]:
    """Tokenizers that may suit references better, each with the reason."""
    lines = [line for ref in refs for line in ref]
    script, share = script_share(lines)
    if tokenizer.name in _UNSPACED_TOKENIZERS:
        if share < MIN_MIXED_SHARE:
            yield "13a", "the references have spaces between words"
        return
    if script is not None and is_unspaced_script(script) and share >= MIN_MIXED_SHARE:
        yield preferred_tokenizer(script), f"{share:.0%} of the letters of the references are {script}"
    punctuated = sum(_UNICODE_PUNCTUATION.search(line) is not None for line in lines) / len(lines)
    if tokenizer.name == "13a" and punctuated >= MIN_MIXED_SHARE:
        yield "intl", f"{punctuated:.0%} of the references contain punctuation outside ASCII"


def has_moses() -> bool:
    """Return whether sacremoses is installed."""
    return importlib.util.find_spec("sacremoses") is not None


def require_moses() -> None:
    """Raise MissingExtraError unless sacremoses is installed."""
    if not has_moses():
        raise MissingExtraError("moses", "sacremoses")


def moses_tokens(lines: Sequence[str], lang: str) -> list[str]:
    """The Moses tokens of each line, joined by spaces; nothing is escaped and the case is kept.

    Args:
        lang: language of the abbreviations; an unknown language is tokenized as English.

    Raises:
        MissingExtraError: sacremoses is not installed.
    """
    require_moses()
    from sacremoses import MosesTokenizer

    tokenizer = MosesTokenizer(lang=lang)
    return [tokenizer.tokenize(line, escape=False, return_str=True) for line in lines]
