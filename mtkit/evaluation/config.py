"""The `evaluation` section of a recipe: metrics and sacreBLEU's tokenizer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import Field

from mtkit.evaluation.tokenizer_choice import SacrebleuTokenizer

MetricName = Literal["bleu", "chrf", "chrf++", "ter", "moses"]


@dataclass(frozen=True, kw_only=True)
class EvaluationConfig:
    """The metrics of the report, and the tokenizer of BLEU."""

    # moses: BLEU on lower-cased Moses tokens, comparable with published Multi30k scores. It is reported whenever
    # sacremoses is installed; naming it here without sacremoses is an error.
    metrics: Annotated[list[MetricName], Field(min_length=1)] = field(default_factory=lambda: ["bleu", "chrf", "ter"])
    # sacreBLEU's tokenizer; auto: by language and script: zh, ja-mecab or char, ko-mecab, for other scripts without
    # spaces flores200 (spBLEU) if its file is there, else char; 13a for all others
    tokenize: SacrebleuTokenizer = "auto"
