"""The `evaluation` section of a recipe: metrics and sacreBLEU's tokenizer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import Field

MetricName = Literal["bleu", "chrf", "ter", "moses"]
SacrebleuTokenizer = Literal["auto", "13a", "intl", "zh", "char", "none"]


@dataclass(frozen=True, kw_only=True)
class EvaluationConfig:
    """The metrics of the report, and the tokenizer of BLEU."""

    # moses: BLEU on lower-cased Moses tokens, comparable with published Multi30k scores. It is reported whenever
    # sacremoses is installed; naming it here without sacremoses is an error.
    metrics: Annotated[list[MetricName], Field(min_length=1)] = field(default_factory=lambda: ["bleu", "chrf", "ter"])
    # sacreBLEU's tokenizer; auto: 13a, zh for Chinese, and char for languages without spaces between words
    tokenize: SacrebleuTokenizer = "auto"

    def sacrebleu_tokenizer(self, tgt_lang: str) -> SacrebleuTokenizer:
        """The name of sacreBLEU's tokenizer for this target language."""
        if self.tokenize != "auto":
            return self.tokenize
        return sacrebleu_tokenizer_for(tgt_lang)


def sacrebleu_tokenizer_for(lang: str) -> SacrebleuTokenizer:
    """sacreBLEU's tokenizer for a language; `lang` is a code such as de or zh-CN."""
    primary = lang.lower().replace("_", "-").partition("-")[0]
    if primary in ("zh", "yue"):
        return "zh"
    return "char" if primary in ("ja", "th", "km", "lo", "my", "bo", "dz") else "13a"
