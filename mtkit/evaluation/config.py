"""What is measured at the end of a run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import Field

MetricName = Literal["bleu", "chrf", "ter", "moses"]
Segmentation = Literal["auto", "13a", "intl", "zh", "char", "none"]


@dataclass(frozen=True, kw_only=True)
class EvaluationConfig:
    """The metrics of the report, and how BLEU cuts text into words."""

    # moses: BLEU on lower-cased Moses tokens, as published Multi30k scores are; in the report whenever sacremoses is
    # there, and an error if it is named here and is not
    metrics: Annotated[list[MetricName], Field(min_length=1)] = field(default_factory=lambda: ["bleu", "chrf", "ter"])
    # of sacreBLEU; auto is 13a, zh for Chinese, and char for languages that write no spaces between words
    tokenize: Segmentation = "auto"

    def segmentation(self, tgt_lang: str) -> Segmentation:
        """The name that sacreBLEU is given for this target language."""
        if self.tokenize != "auto":
            return self.tokenize
        return segmentation_of(tgt_lang)


def segmentation_of(lang: str) -> Segmentation:
    """How BLEU cuts text of a language; `lang` is a code such as de or zh-CN."""
    primary = lang.lower().replace("_", "-").partition("-")[0]
    if primary in ("zh", "yue"):
        return "zh"
    return "char" if primary in ("ja", "th", "km", "lo", "my", "bo", "dz") else "13a"
