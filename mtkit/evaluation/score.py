"""BLEU, chrF and TER by sacreBLEU, each with the signature that makes it comparable.

Post 2018, https://arxiv.org/abs/1804.08771. All scores are percentages, in sacreBLEU's default settings.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from mtkit.errors import DataError
from mtkit.evaluation import moses
from mtkit.evaluation.config import EvaluationConfig, MetricName, Segmentation, segmentation_of
from mtkit.text.lines import read_lines


@dataclass(frozen=True)
class Score:
    """One number, in percent, and how it was computed."""

    value: float
    signature: str


@dataclass(frozen=True)
class Scores:
    """The scores of one system on one test set; None where a metric was not asked for.

    Attributes:
        bleu: on the text as it is; higher is better.
        chrf: chrF2, on characters; higher is better.
        ter: translation edit rate; lower is better.
        bleu_moses_lc: BLEU on lower-cased Moses tokens.
    """

    bleu: Score | None = None
    bleu_moses_lc: Score | None = None
    chrf: Score | None = None
    ter: Score | None = None

    def by_name(self) -> dict[str, Score]:
        """Those that were computed, in the order of the report."""
        scores = {"bleu": self.bleu, "bleu_moses_lc": self.bleu_moses_lc, "chrf": self.chrf, "ter": self.ter}
        return {name: score for name, score in scores.items() if score is not None}

    def as_dict(self) -> dict[str, float | str]:
        """What report.json says: `bleu`, `bleu_signature`, and so on."""
        report: dict[str, float | str] = {}
        for name, score in self.by_name().items():
            report |= {name: score.value, f"{name}_signature": score.signature}
        return report


def score(
    hyps: Sequence[str],
    refs: Sequence[Sequence[str]],
    metrics: Sequence[MetricName] = ("bleu", "chrf", "ter"),
    *,
    tgt_lang: str = "en",
    tokenize: Segmentation = "auto",
) -> Scores:
    """Score the translations of a test set.

    Args:
        hyps: one line for each sentence.
        refs: one or more references, each with as many lines as `hyps`.
        metrics: which to compute.
        tgt_lang: code of the language, for Moses tokens and for `tokenize="auto"`.
        tokenize: how BLEU cuts text (see EvaluationConfig).

    Raises:
        DataError: no lines, or unequal numbers of lines.
        MissingExtraError: moses is asked for and sacremoses is not installed.
    """
    _check_counts(len(hyps), [len(ref) for ref in refs])
    segmentation = segmentation_of(tgt_lang) if tokenize == "auto" else tokenize
    compute: dict[MetricName, Callable[[], Score]] = {
        "bleu": lambda: _corpus(BLEU(tokenize=segmentation), hyps, refs),
        "chrf": lambda: _corpus(CHRF(), hyps, refs),
        "ter": lambda: _corpus(TER(), hyps, refs),
        "moses": lambda: _moses(hyps, refs, tgt_lang),
    }
    found = {metric: compute[metric]() for metric in metrics}
    return Scores(
        bleu=found.get("bleu"), bleu_moses_lc=found.get("moses"), chrf=found.get("chrf"), ter=found.get("ter")
    )


def evaluate(hyps: Sequence[str], ref: Sequence[str], config: EvaluationConfig, *, tgt_lang: str) -> Scores:
    """Score one test set as a recipe says, and on Moses tokens too where sacremoses is installed.

    Raises:
        DataError, MissingExtraError: as `score`.
    """
    metrics = [*config.metrics]
    if moses.is_installed() and "moses" not in metrics and "bleu" in metrics:
        metrics.append("moses")
    return score(hyps, [ref], metrics, tgt_lang=tgt_lang, tokenize=config.tokenize)


def score_files(
    hyps: Sequence[Path],
    refs: Sequence[Path],
    metrics: Sequence[MetricName] = ("bleu", "chrf", "ter"),
    *,
    tgt_lang: str = "en",
    tokenize: Segmentation = "auto",
) -> dict[str, Scores]:
    """Score several systems against the same references; the keys are the hypothesis files, in their order.

    Raises:
        DataError: a file has no lines, is not UTF-8, or has another number of lines than the first reference.
        MissingInputError, ReadWriteError: as `files.reading`.
        MissingExtraError: as `score`.
    """
    texts = {path: list(read_lines(path)) for path in [*refs, *hyps]}
    wrong = [path for path in texts if len(texts[path]) != len(texts[refs[0]])]
    if wrong:
        counts = ", ".join(f"{path} has {len(texts[path]):,}" for path in wrong)
        raise DataError(
            f"{refs[0]} has {len(texts[refs[0]]):,} lines, but {counts}; a translation has exactly one line for each"
        )
    if not texts[refs[0]]:
        raise DataError(f"{refs[0]}: no lines; there is nothing to score")
    reference = [texts[path] for path in refs]
    return {str(hyp): score(texts[hyp], reference, metrics, tgt_lang=tgt_lang, tokenize=tokenize) for hyp in hyps}


def _check_counts(num_hyps: int, num_refs: Sequence[int]) -> None:
    if not num_refs or any(count != num_hyps for count in num_refs):
        counts = " and ".join(f"{count:,}" for count in num_refs) or "no"
        raise DataError(f"{num_hyps:,} translations but {counts} reference lines; they must be equally many")
    if not num_hyps:
        raise DataError("no lines; there is nothing to score")


def _corpus(metric: Metric, hyps: Sequence[str], refs: Sequence[Sequence[str]]) -> Score:
    value = metric.corpus_score(list(hyps), [list(ref) for ref in refs]).score
    return Score(value=float(value), signature=str(metric.get_signature()))


def _moses(hyps: Sequence[str], refs: Sequence[Sequence[str]], lang: str) -> Score:
    # `force`: the text is tokenized, and sacreBLEU would warn of that
    metric = BLEU(tokenize="none", lowercase=True, force=True)
    return _corpus(metric, moses.tokenize(hyps, lang), [moses.tokenize(ref, lang) for ref in refs])
