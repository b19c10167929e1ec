"""Options of translation for a language model that ranks the hypotheses."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mtkit.errors import UsageError

if TYPE_CHECKING:
    from mtkit.translate.translation import LanguageModelOptions


class LanguageModelMode(StrEnum):
    """Uses of a language model."""

    fusion = "fusion"
    rerank = "rerank"


LanguageModel = Annotated[
    Path | None, typer.Option("--lm", metavar="MODEL", help="Language model that ranks translations too.")
]
LanguageModelWeight = Annotated[
    float | None,
    typer.Option("--lm-weight", min=0, help="Weight of the language model's log-probability (default: 0.2)."),
]
LanguageModelModeOption = Annotated[
    LanguageModelMode | None,
    typer.Option("--lm-mode", help="fusion (default): at every step of the search; rerank: complete translations."),
]


def language_model_options(
    model: Path | None, weight: float | None, mode: LanguageModelMode | None
) -> LanguageModelOptions | None:
    """The options as one value; None without a language model.

    Raises:
        UsageError: weight or mode without a language model.
    """
    from mtkit.translate.translation import LANGUAGE_MODEL_WEIGHT, LanguageModelOptions

    if model is None:
        for name, value in (("weight", weight), ("mode", mode)):
            if value is not None:
                raise UsageError(f"translate: --lm-{name} is for a language model; add --lm MODEL, or omit it")
        return None
    weight = LANGUAGE_MODEL_WEIGHT if weight is None else weight
    return LanguageModelOptions(model=model, weight=weight, mode="fusion" if mode is None else mode.value)
