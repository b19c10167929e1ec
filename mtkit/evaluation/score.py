"""BLEU, chrF and TER by sacreBLEU, each with its signature.

Post 2018, https://arxiv.org/abs/1804.08771. All scores are percentages, with sacreBLEU's default settings.
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
from mtkit.evaluation.config import EvaluationConfig, MetricName
from mtkit.evaluation.plausibility import implausible_inputs
from mtkit.evaluation.tokenizer_choice import SacrebleuTokenizer, TokenizerChoice, choose_tokenizer
from mtkit.text.lines import read_lines

_TER_SCRIPTS = ("Chinese", "Japanese")  # unspaced scripts for which sacreBLEU's TER has an option


@dataclass(frozen=True)
class Score:
    """A score in percent, and sacreBLEU's signature of its settings."""

    value: float
    signature: str


@dataclass(frozen=True)
class Scores:
    """The scores of one system on one test set; None for a metric that was not requested.

    Attributes:
        bleu: BLEU on cased, detokenized text; higher is better.
        bleu_moses_lc: BLEU on lower-cased Moses tokens; higher is better.
        chrf: chrF2, on characters; higher is better.
        ter: translation edit rate; lower is better.
        notes: sentences for the user: the choice of a tokenizer, metrics that are left out, implausible inputs.
    """

    bleu: Score | None = None
    bleu_moses_lc: Score | None = None
    chrf: Score | None = None
    ter: Score | None = None
    notes: tuple[str, ...] = ()

    def by_name(self) -> dict[str, Score]:
        """The computed scores, in the order of the report."""
        scores = {"bleu": self.bleu, "bleu_moses_lc": self.bleu_moses_lc, "chrf": self.chrf, "ter": self.ter}
        return {name: score for name, score in scores.items() if score is not None}

    def as_dict(self) -> dict[str, float | str]:
        """The entries of report.json: `bleu`, `bleu_signature`, and so on."""
        report: dict[str, float | str] = {}
        for name, score in self.by_name().items():
            report |= {name: score.value, f"{name}_signature": score.signature}
        return report


def score(
    hyps: Sequence[str],
    refs: Sequence[Sequence[str]],
    metrics: Sequence[MetricName] = ("bleu", "chrf", "ter"),
    *,
    tgt_lang: str | None = None,
    tokenize: SacrebleuTokenizer = "auto",
    src: Sequence[str] | None = None,
) -> Scores:
    """Score the translations of a test set.

    Args:
        hyps: one line for each sentence.
        refs: one or more references, each with the same number of lines as `hyps`.
        metrics: the metrics to compute.
        tgt_lang: code of the target language, for Moses tokens and for `tokenize="auto"`; None: unknown.
        tokenize: sacreBLEU's tokenizer (see choose_tokenizer).
        src: the source text, to warn of translations that are equal to it.

    Returns:
        The scores in percent, each with sacreBLEU's signature; None for metrics that were not requested, or that count
        words where the script of the references has no spaces.

    Raises:
        DataError: no lines, or unequal numbers of lines.
        MissingExtraError: `metrics` has moses and sacremoses is not installed, or the tokenizer is not.

    Example:
        >>> score(["the cat sat"], [["the cat sat down"]], ["bleu"]).bleu.value
    """
    _check_counts(len(hyps), [len(ref) for ref in refs])
    tokenizer = choose_tokenizer((line for ref in refs for line in ref), tgt_lang, tokenize)
    unsuitable = _unsuitable_metrics(tokenizer)
    compute: dict[MetricName, Callable[[], Score]] = {
        "bleu": lambda: _corpus_score(BLEU(tokenize=tokenizer.name), hyps, refs),
        "chrf": lambda: _corpus_score(CHRF(), hyps, refs),
        "ter": lambda: _corpus_score(_ter(tokenizer), hyps, refs),
        "moses": lambda: _moses_bleu(hyps, refs, tgt_lang or "en"),
    }
    scores = {metric: compute[metric]() for metric in metrics if metric not in unsuitable}
    return Scores(
        bleu=scores.get("bleu"),
        bleu_moses_lc=scores.get("moses"),
        chrf=scores.get("chrf"),
        ter=scores.get("ter"),
        notes=(
            *([tokenizer.note] if tokenizer.note and "bleu" in metrics else []),
            *(unsuitable[metric] for metric in metrics if metric in unsuitable),
            *implausible_inputs(hyps, refs, src),
        ),
    )


def _unsuitable_metrics(tokenizer: TokenizerChoice) -> dict[MetricName, str]:
    """Metrics that count words by the spaces between them although the script has none, each with a sentence."""
    if not tokenizer.is_unspaced:
        return {}
    script = tokenizer.script
    reason = f"since it counts words by spaces and the references are {script}"
    metrics: dict[MetricName, str] = {"moses": f"BLEU on Moses tokens is left out, {reason}"}
    if script not in _TER_SCRIPTS:
        metrics["ter"] = f"TER is left out, {reason}"
    return metrics


def _ter(tokenizer: TokenizerChoice) -> TER:
    is_split = tokenizer.script in _TER_SCRIPTS
    return TER(normalized=is_split, asian_support=is_split)


def evaluate(hyps: Sequence[str], ref: Sequence[str], config: EvaluationConfig, *, tgt_lang: str) -> Scores:
    """Score one test set with the metrics of a recipe, plus BLEU on Moses tokens if sacremoses is installed.

    Raises:
        DataError, MissingExtraError: as `score`.
    """
    metrics = [*config.metrics]
    is_unspaced = choose_tokenizer(ref, tgt_lang, config.tokenize).is_unspaced
    if moses.is_installed() and "moses" not in metrics and "bleu" in metrics and not is_unspaced:
        metrics.append("moses")
    return score(hyps, [ref], metrics, tgt_lang=tgt_lang, tokenize=config.tokenize)


def score_files(
    hyps: Sequence[Path],
    refs: Sequence[Path],
    metrics: Sequence[MetricName] = ("bleu", "chrf", "ter"),
    *,
    tgt_lang: str | None = None,
    tokenize: SacrebleuTokenizer = "auto",
    src: Path | None = None,
) -> dict[str, Scores]:
    """Score several systems against the same references; the keys are the hypothesis files, in their order.

    Arguments as `score`.

    Raises:
        DataError: a file has no lines, is not UTF-8, or has another number of lines than the first reference.
        MissingInputError, ReadWriteError: as `files.translate_read_errors`.
        MissingExtraError: as `score`.
    """
    texts = {path: list(read_lines(path)) for path in [*refs, *hyps, *([] if src is None else [src])]}
    unequal = [path for path in texts if len(texts[path]) != len(texts[refs[0]])]
    if unequal:
        counts = ", ".join(f"{path} has {len(texts[path]):,}" for path in unequal)
        raise DataError(
            f"{refs[0]} has {len(texts[refs[0]]):,} lines, but {counts}; translations, references and source must have "
            "equally many lines"
        )
    if not texts[refs[0]]:
        raise DataError(f"{refs[0]}: no lines; there is nothing to score")
    reference = [texts[path] for path in refs]
    source = None if src is None else texts[src]
    return {
        str(hyp): score(texts[hyp], reference, metrics, tgt_lang=tgt_lang, tokenize=tokenize, src=source)
        for hyp in hyps
    }


def _check_counts(num_hyps: int, num_refs: Sequence[int]) -> None:
    if not num_refs or any(count != num_hyps for count in num_refs):
        counts = " and ".join(f"{count:,}" for count in num_refs) or "no"
        raise DataError(f"{num_hyps:,} translations but {counts} reference lines; the numbers must be equal")
    if not num_hyps:
        raise DataError("no lines; there is nothing to score")


def _corpus_score(metric: Metric, hyps: Sequence[str], refs: Sequence[Sequence[str]]) -> Score:
    value = metric.corpus_score(list(hyps), [list(ref) for ref in refs]).score
    return Score(value=float(value), signature=str(metric.get_signature()))


def _moses_bleu(hyps: Sequence[str], refs: Sequence[Sequence[str]], lang: str) -> Score:
    # `force` suppresses sacreBLEU's warning that the text is already tokenized
    metric = BLEU(tokenize="none", lowercase=True, force=True)
    return _corpus_score(metric, moses.tokenize(hyps, lang), [moses.tokenize(ref, lang) for ref in refs])
