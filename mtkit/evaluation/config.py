"""The `evaluation` section of a recipe: metrics and sacreBLEU's tokenizer; the settings of one report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from typing import Annotated, Literal

from mtkit.config import Limits, config
from mtkit.errors import UsageError
from mtkit.evaluation.tokenizer_choice import SacrebleuTokenizer

MetricName = Literal["bleu", "chrf", "chrf++", "ter", "moses"]


@config
class EvaluationConfig:
    """The metrics of the report, and the tokenizer of BLEU."""

    # Metrics of the test sets; moses is BLEU on lower-cased Moses tokens, comparable with published Multi30k scores.
    # Default: the three that papers report; moses is added where sacremoses is installed, and naming it without
    # sacremoses is an error.
    metrics: Annotated[list[MetricName], Limits(min_length=1)] = field(default_factory=lambda: ["bleu", "chrf", "ter"])
    # Tokenizer of BLEU, by its name in sacreBLEU. Default: auto chooses by language and script: zh, ja-mecab or char,
    # ko-mecab; for other scripts without spaces flores200 (spBLEU) if its file is there, else char; 13a for all others.
    tokenize: SacrebleuTokenizer = "auto"


@config
class ReportOptions:
    """Settings of one report of scores: the options of `mtkit evaluate`.

    Attributes:
        metrics: the metrics; None: those of the configuration.
        moses: also compute BLEU on Moses tokens.
        tokenize: the tokenizer of BLEU; None: that of the configuration.
        intervals: compute 95% intervals, and for several systems the paired tests.
        by_length: also score segments by length.
        documents: the document of each segment, to also score by document; None: do not.
    """

    metrics: Sequence[MetricName] | None = None
    moses: bool = False
    tokenize: SacrebleuTokenizer | None = None
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
        return replace(config, metrics=metrics, tokenize=self.tokenize or config.tokenize)
