"""The table of metrics, the `evaluation` section of a recipe, and the settings of one report."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Literal

from mtkit.config import Limits, config
from mtkit.errors import MissingExtraError, UsageError
from mtkit.evaluation.tokenizer_choice import SacrebleuTokenizer


@dataclass(frozen=True)
class MetricInfo:
    """All that the package knows of a metric, except its arithmetic.

    Attributes:
        key: its name in report.json and in `Scores`.
        heading: its name in tables.
        builds: path of its class, a `Metric` (evaluation/metrics.py), which is imported when the metric is computed.
        higher_is_better: whether the best system has the highest score.
        extra, package: extra of mtkit with the package that the metric needs; empty: none.
    """

    key: str
    heading: str
    builds: str
    higher_is_better: bool = True
    extra: str = ""
    package: str = ""

    def is_installed(self) -> bool:
        """Return whether the metric can be computed."""
        return not self.package or importlib.util.find_spec(self.package) is not None

    def require_installed(self) -> None:
        """Raise MissingExtraError unless the metric can be computed."""
        if not self.is_installed():
            raise MissingExtraError(self.extra, self.package)


# Metrics by their name in recipes and options, in the order of reports.
METRICS: dict[str, MetricInfo] = {
    "bleu": MetricInfo("bleu", "BLEU", "evaluation.metrics:DetokenizedBLEU"),
    "moses": MetricInfo(
        "bleu_moses_lc",
        "BLEU (lower-cased Moses tokens)",
        "evaluation.metrics:MosesBLEU",
        extra="moses",
        package="sacremoses",
    ),
    "chrf": MetricInfo("chrf", "chrF2", "evaluation.metrics:CharacterF"),
    "chrf++": MetricInfo("chrf++", "chrF2++", "evaluation.metrics:CharacterAndWordF"),
    "ter": MetricInfo("ter", "TER", "evaluation.metrics:EditRate", higher_is_better=False),
}
REPORTED = {info.key: info for info in METRICS.values()}
METRIC_NAMES = tuple(sorted(METRICS, key=lambda name: bool(METRICS[name].extra)))  # those for all installations first


def key_of(name: str) -> str:
    """The key in report.json of a metric; that of an external one is its name."""
    return METRICS[name].key if name in METRICS else name


def heading_of(key: str) -> str:
    """The heading of a score; that of an external metric is its name."""
    return REPORTED[key].heading if key in REPORTED else key


def format_score(key: str, value: float) -> str:
    """A score with two digits, or four where an external metric has numbers such as those of COMET, about 0 to 1."""
    return f"{value:.4f}" if key not in REPORTED and abs(value) < 2 else f"{value:.2f}"


DEFAULT_METRICS = ("bleu", "chrf", "ter")
if TYPE_CHECKING:
    MetricName = str
else:
    MetricName = Literal[METRIC_NAMES]


@config
class EvaluationConfig:
    """The metrics of the report, and the tokenizer of BLEU."""

    # Metrics of the test sets; moses is BLEU on lower-cased Moses tokens, comparable with published Multi30k scores.
    # Default: the three that papers report; moses is added where sacremoses is installed, and naming it without
    # sacremoses is an error.
    metrics: Annotated[list[MetricName], Limits(min_length=1)] = field(default_factory=lambda: [*DEFAULT_METRICS])
    # Tokenizer of BLEU, by its name in sacreBLEU. Default: auto chooses by language and script: zh, ja-mecab or char,
    # ko-mecab; for other scripts without spaces flores200 (spBLEU) if its file is there, else char; 13a for all others.
    tokenize: SacrebleuTokenizer = "auto"
    # Whether BLEU and chrF ignore capitals; TER always does. Default: false; true where tokenizer.lowercase is.
    lowercase: bool = False


@config
class ReportOptions:
    """Settings of one report of scores: the options of `mtkit evaluate`.

    Attributes:
        metrics: the metrics; None: those of the configuration.
        moses: also compute BLEU on Moses tokens.
        tokenize: the tokenizer of BLEU; None: that of the configuration.
        lowercase: ignore capitals, which the configuration may do anyway.
        intervals: compute 95% intervals, and for several systems the paired tests.
        by_length: also score segments by length.
        documents: the document of each segment, to also score by document; None: do not.
    """

    metrics: Sequence[MetricName] | None = None
    moses: bool = False
    tokenize: SacrebleuTokenizer | None = None
    lowercase: bool = False
    intervals: bool = True
    by_length: bool = False
    documents: Sequence[str] | None = None
    documents_file: str = ""

    def apply(self, config: EvaluationConfig) -> EvaluationConfig:
        """Return the configuration with the metrics and the tokenizer of the report.

        Raises:
            UsageError: the tokenizer is requested without BLEU.
        """
        metrics = [*(self.metrics or config.metrics)]
        if self.moses and "moses" not in metrics:
            metrics.append("moses")
        if self.tokenize is not None and "bleu" not in metrics:
            raise UsageError(
                f"evaluate: --tokenize {self.tokenize} is the tokenizer of BLEU, which is not among the metrics "
                f"({', '.join(metrics)}); omit it, or add bleu to --metrics"
            )
        lowercase = self.lowercase or config.lowercase
        return replace(config, metrics=metrics, tokenize=self.tokenize or config.tokenize, lowercase=lowercase)
