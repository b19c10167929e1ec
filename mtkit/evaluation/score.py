"""BLEU, chrF and TER by sacreBLEU, each with its signature.

Post 2018, https://arxiv.org/abs/1804.08771. All scores are percentages, with sacreBLEU's default settings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from mtkit.display import Table, count_of
from mtkit.errors import DataError
from mtkit.evaluation.config import (
    DEFAULT_METRICS,
    METRIC_NAMES,
    METRICS,
    REPORTED,
    EvaluationConfig,
    MetricName,
    format_score,
    heading_of,
    key_of,
)
from mtkit.evaluation.metrics import MetricChoice, choose_metrics
from mtkit.evaluation.plausibility import implausible_inputs, unexpected_languages
from mtkit.evaluation.tokenizer_choice import SacrebleuTokenizer, choose_tokenizer, tokenizer_sensitivity
from mtkit.text.lines import list_of_texts, read_lines, require_list


@dataclass(frozen=True)
class Interval:
    """A 95% confidence interval by bootstrap: `mean` ± `margin`, in percent."""

    mean: float
    margin: float


@dataclass(frozen=True)
class Score:
    """A score in percent (or of an external metric), the signature of its settings, its interval if requested."""

    value: float
    signature: str
    interval: Interval | None = None
    higher_is_better: bool = True

    def __repr__(self) -> str:
        margin = f" ± {self.interval.margin:.2f}" if self.interval else ""
        return f"Score({self.value:.2f}{margin})"


@dataclass(frozen=True)
class Scores:
    """The scores of one system on one test set. `scores.bleu` is None if that metric was not requested.

    Attributes:
        values: the computed scores by their key in report.json, in the order of reports.
        notes: sentences for the user: the choice of a tokenizer, metrics that are left out, implausible inputs.
    """

    values: Mapping[str, Score]
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, scores: Mapping[MetricName, Score], notes: Iterable[str]) -> Self:
        """Scores by the names of their metrics, in any order."""
        ordered = [*(name for name in METRICS if name in scores), *(name for name in scores if name not in METRICS)]
        return cls({key_of(name): scores[name] for name in ordered}, tuple(notes))

    def __getattr__(self, name: str) -> Score | None:
        keys = {key.replace("+", "p"): key for key in REPORTED}
        if name not in keys:
            raise AttributeError(f"Scores has no attribute {name!r}; the scores are {', '.join(keys)}")
        return self.values.get(keys[name])

    def __repr__(self) -> str:
        values = (f"{heading_of(key)} {format_score(key, each.value)}" for key, each in self.values.items())
        return f"Scores({', '.join(values)})"

    def _repr_html_(self) -> str:
        rows = [(heading_of(key), format_score(key, each.value), each.signature) for key, each in self.values.items()]
        return Table(["metric", "score", "signature"], rows).html()

    def as_dict(self) -> dict[str, float | str]:
        """The entries of report.json: `bleu`, `bleu_signature`, ...; with intervals also `bleu_mean`, `bleu_margin`."""
        report: dict[str, float | str] = {}
        for name, score in self.values.items():
            report |= {name: score.value, f"{name}_signature": score.signature}
            if score.interval is not None:
                report |= {f"{name}_mean": score.interval.mean, f"{name}_margin": score.interval.margin}
        return report


def score(
    hyps: Sequence[str],
    refs: Sequence[Sequence[str]],
    metrics: Sequence[MetricName] = DEFAULT_METRICS,
    *,
    tgt_lang: str | None = None,
    tokenize: SacrebleuTokenizer = "auto",
    lowercase: bool = False,
    src: Sequence[str] | None = None,
) -> Scores:
    """Score the translations of a test set.

    Args:
        hyps: one line for each sentence.
        refs: one or more references, each with the same number of lines as `hyps`.
        metrics: the metrics to compute.
        tgt_lang: code of the target language, for Moses tokens and for `tokenize="auto"`; None: unknown.
        tokenize: sacreBLEU's tokenizer (see choose_tokenizer).
        lowercase: whether BLEU and chrF ignore capitals, as TER does.
        src: the source text, to warn of translations that are equal to it.

    Returns:
        The scores in percent, each with sacreBLEU's signature; None for metrics that were not requested, or that count
        words where the script of the references has no spaces.

    Raises:
        DataError: no lines, or unequal numbers of lines.
        MissingExtraError: `metrics` has moses and sacremoses is not installed, or the tokenizer is not.
        TypeError, ValueError: a text instead of a list of texts; no such metric.

    Example:
        >>> score(["the cat sat"], [["the cat sat down"]], ["bleu"]).bleu.value
    """
    require_list("refs", refs)
    hyps, refs = list_of_texts("hyps", hyps), [list_of_texts(f"refs[{n}]", ref) for n, ref in enumerate(refs)]
    src = None if src is None else list_of_texts("src", src)
    if unknown := [name for name in list_of_texts("metrics", metrics) if name not in METRICS]:
        raise ValueError(f"metrics: {unknown[0]!r} is no metric; the metrics are {', '.join(METRIC_NAMES)}")
    check_counts(len(hyps), [len(ref) for ref in refs])
    choice = choose_metrics(refs, metrics, tgt_lang=tgt_lang, tokenize=tokenize, lowercase=lowercase)
    return _compute(choice, hyps, refs, src)


def bleu_of(
    hyps: Sequence[str],
    ref: Sequence[str],
    *,
    tgt_lang: str | None = None,
    tokenize: SacrebleuTokenizer = "auto",
    lowercase: bool = False,
) -> float:
    """BLEU of the translations of a test set in percent; arguments and errors as `score`."""
    scores = score(hyps, [ref], ["bleu"], tgt_lang=tgt_lang, tokenize=tokenize, lowercase=lowercase)
    return scores.values["bleu"].value


def _compute(
    choice: MetricChoice, hyps: Sequence[str], refs: Sequence[Sequence[str]], src: Sequence[str] | None = None
) -> Scores:
    scores = {}
    for name, metric in choice.metrics.items():
        (values,) = metric.statistics([hyps], refs)  # first: it sets the number of references in the signature
        value, is_higher = metric.score(values.sum(0).tolist()), METRICS[name].higher_is_better
        scores[name] = Score(value, metric.signature(), higher_is_better=is_higher)
    return Scores.of(scores, [*choice.notes, *implausible_inputs(hyps, refs, src)])


def evaluate(hyps: Sequence[str], ref: Sequence[str], config: EvaluationConfig, *, tgt_lang: str) -> Scores:
    """Score one test set with the metrics of a recipe, plus BLEU on Moses tokens if sacremoses is installed.

    Raises:
        DataError, MissingExtraError: as `score`.
    """
    check_counts(len(hyps), [len(ref)])
    metrics = metrics_of_run(ref, config, tgt_lang=tgt_lang)
    choice = choose_metrics([ref], metrics, tgt_lang=tgt_lang, tokenize=config.tokenize, lowercase=config.lowercase)
    scores = _compute(choice, hyps, [ref])
    return replace(scores, notes=(*scores.notes, *sampled_warnings(hyps, [ref], choice)))


def metrics_of_run(ref: Sequence[str], config: EvaluationConfig, *, tgt_lang: str) -> list[MetricName]:
    """The metrics of a recipe, plus BLEU on Moses tokens if sacremoses is installed and the script has spaces."""
    metrics = [*config.metrics]
    is_unspaced = choose_tokenizer(ref, tgt_lang, config.tokenize).is_unspaced
    if METRICS["moses"].is_installed() and "moses" not in metrics and "bleu" in metrics and not is_unspaced:
        metrics.append("moses")
    return metrics


def sampled_warnings(hyps: Sequence[str], refs: Sequence[Sequence[str]], choice: MetricChoice) -> list[str]:
    """Sentences about the language of the translations and about other tokenizers, from a sample of the lines."""
    note = tokenizer_sensitivity(hyps, refs, choice.tokenizer) if "bleu" in choice.metrics else None
    return [*unexpected_languages(hyps, refs), *([note] if note else [])]


def read_texts(
    hyps: Sequence[Path],
    refs: Sequence[Path],
    src: Path | None,
    read: Callable[[Path], Iterable[str]] = read_lines,
) -> dict[Path, list[str]]:
    """Read translations, references and source, which have equally many lines; `read` returns those of a file.

    Raises:
        DataError: a file has no lines, is not UTF-8, or has another number of lines than the first reference.
        MissingInputError, ReadWriteError: as `files.translate_read_errors`.
    """
    texts = {path: list(read(path)) for path in [*refs, *hyps, *([] if src is None else [src])]}
    unequal = [path for path in texts if len(texts[path]) != len(texts[refs[0]])]
    if unequal:
        num_lines = len(texts[refs[0]])
        counts = []
        for path in unequal:
            lines, reason = texts[path], ""
            surplus = lines[num_lines:]
            if surplus and not any(map(str.strip, surplus)):
                which = "last is" if len(surplus) == 1 else f"last {len(surplus):,} are"
                reason = f" (the {which} blank)"
            elif len(lines) < num_lines and any("\r" in line for line in lines):
                reason = r" (with \r inside lines: convert line ends, for example with tr '\r' '\n')"
            counts.append(f"{path} has {len(lines):,}{reason}")
        raise DataError(
            f"{refs[0]} has {count_of(num_lines, 'line')}, but {', '.join(counts)}; translations, references and "
            "source must have equally many lines"
        )
    if not texts[refs[0]]:
        raise DataError(f"{refs[0]}: no lines; there is nothing to score")
    return texts


def check_counts(num_hyps: int, num_refs: Sequence[int]) -> None:
    """Check the numbers of lines of translations and references; DataError if they differ or are 0."""
    if not num_refs or any(count != num_hyps for count in num_refs):
        counts = " and ".join(f"{count:,}" for count in num_refs) or "no"
        raise DataError(f"{num_hyps:,} translations but {counts} reference lines; the numbers must be equal")
    if not num_hyps:
        raise DataError("no lines; there is nothing to score")
