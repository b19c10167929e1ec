"""The metrics of sacreBLEU for the script of the references, with references that are prepared once for all systems."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from mtkit.evaluation import moses
from mtkit.evaluation.config import MetricName
from mtkit.evaluation.resampling import SegmentStatistics, segment_statistics
from mtkit.evaluation.tokenizer_choice import SacrebleuTokenizer, TokenizerChoice, choose_tokenizer

_TER_SCRIPTS = ("Chinese", "Japanese")  # unspaced scripts for which sacreBLEU's TER has an option


@dataclass(frozen=True)
class PreparedMetric:
    """A metric with its references.

    Attributes:
        metric: sacreBLEU's metric.
        moses_lang: language of the Moses tokens that the metric counts; None: it counts raw text.
    """

    metric: Metric
    moses_lang: str | None = None

    def statistics(self, hyps: Sequence[str]) -> SegmentStatistics:
        """The statistics of each translation."""
        lines = hyps if self.moses_lang is None else moses.tokenize(hyps, self.moses_lang)
        return segment_statistics(self.metric, lines)


@dataclass(frozen=True)
class MetricChoice:
    """Metrics that suit the script of the references.

    Attributes:
        names: requested metrics, except those that count words by spaces where the script has none.
        tokenizer: the tokenizer of BLEU.
        notes: sentences for the user about the tokenizer, and about metrics that are left out.
        lang: language of Moses tokens.
    """

    names: tuple[MetricName, ...]
    tokenizer: TokenizerChoice
    notes: tuple[str, ...]
    lang: str

    def build(self, refs: Sequence[Sequence[str]]) -> Iterator[tuple[MetricName, PreparedMetric]]:
        """Prepare one metric after the other, so that only the references of one are in memory."""
        lines = [list(ref) for ref in refs]
        for name in self.names:
            yield name, self._prepare(name, lines)

    def _prepare(self, name: MetricName, refs: list[list[str]]) -> PreparedMetric:
        if name == "bleu":
            return PreparedMetric(BLEU(tokenize=self.tokenizer.name, references=refs))
        if name == "ter":
            is_split = self.tokenizer.script in _TER_SCRIPTS
            return PreparedMetric(TER(normalized=is_split, asian_support=is_split, references=refs))
        if name == "moses":
            tokens = [moses.tokenize(ref, self.lang) for ref in refs]
            # `force` suppresses sacreBLEU's warning that the text is already tokenized
            return PreparedMetric(BLEU(tokenize="none", lowercase=True, force=True, references=tokens), self.lang)
        return PreparedMetric(CHRF(word_order=2 if name == "chrf++" else 0, references=refs))


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
    names = tuple(metric for metric in metrics if metric not in unsuitable)
    if "moses" in names:
        moses.check_installed()
    return MetricChoice(names, tokenizer, tuple(notes), tgt_lang or "en")


def _unsuitable_metrics(tokenizer: TokenizerChoice) -> dict[MetricName, str]:
    """Metrics that count words by the spaces between them although the script has none, each with a sentence."""
    if not tokenizer.is_unspaced:
        return {}
    script = tokenizer.script
    reason = f"since it counts words by spaces and the references are {script}"
    metrics: dict[MetricName, str] = {
        "moses": f"BLEU on Moses tokens is left out, {reason}",
        "chrf++": f"chrF2++ is left out, {reason}; chrF2 counts characters only",
    }
    if script not in _TER_SCRIPTS:
        metrics["ter"] = f"TER is left out, {reason}"
    return metrics


def sentence_similarity(metric: Literal["chrf", "bleu"], tgt_lang: str) -> Callable[[str, str], float]:
    """A function (hypothesis, reference) -> chrF2 or smoothed BLEU in percent.

    BLEU uses the n-gram orders that the hypothesis has (sacreBLEU's effective_order), and the tokenizer of the target
    language.
    """
    scorer = CHRF() if metric == "chrf" else BLEU(effective_order=True, tokenize=choose_tokenizer((), tgt_lang).name)

    def similarity(hyp: str, ref: str) -> float:
        return float(scorer.sentence_score(hyp, [ref]).score)

    return similarity
