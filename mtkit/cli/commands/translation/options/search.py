"""Options for the search, as overrides of the keys below `search`, and for a language model that ranks hypotheses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from mtkit.errors import UsageError

if TYPE_CHECKING:
    from mtkit.translate.translation import LanguageModelOptions


BeamSize = Annotated[int | None, typer.Option("--beam-size", min=1, help="Beam size; 1 is greedy search.")]
NBest = Annotated[
    int | None,
    typer.Option("--n-best", min=1, metavar="N", help="Write the N best translations: LINE ||| TRANSLATION ||| SCORE."),
]
LengthPenalty = Annotated[
    float | None,
    typer.Option(
        "--length-penalty",
        min=0,
        metavar="ALPHA",
        help="Rank by log-probability / length^ALPHA; a larger ALPHA favours longer translations.",
    ),
]
MaxLength = Annotated[
    int | None, typer.Option("--max-length", min=1, metavar="N", help="At most N tokens in a translation.")
]
Sample = Annotated[
    float | None,
    typer.Option(
        "--sample",
        min=0.001,
        metavar="TEMPERATURE",
        help="Sample translations; 1 is the model's own distribution.",
    ),
]
Seed = Annotated[
    int | None, typer.Option("--seed", min=0, max=2**63 - 1, help="With --sample: random seed (default: 1).")
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="search.KEY=VALUE", help="Override a search setting (repeatable); --help-search lists all."
    ),
]


def _print_search_keys(requested: bool) -> None:
    if not requested:
        return
    from mtkit.cli.printing import print_lines
    from mtkit.recipe.reference import as_text, key_groups, select
    from mtkit.recipe.sections import Recipe

    print_lines(as_text(select(key_groups(Recipe), "search")))
    raise typer.Exit


HelpSearch = Annotated[
    bool,
    typer.Option(
        "--help-search", callback=_print_search_keys, is_eager=True, help="List the keys that --set takes, and exit."
    ),
]


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """The options of a command line for the search; None: not given."""

    beam_size: int | None = None
    n_best: int | None = None
    length_penalty: float | None = None
    max_length: int | None = None
    sample: float | None = None
    seed: int | None = None
    settings: Sequence[str] | None = None

    def overrides(self) -> list[str]:
        """The overrides, `search.KEY=VALUE` each.

        Raises:
            UsageError: an option needs another one, or --set sets the same key as an option.
        """
        if self.seed is not None and self.sample is None:
            raise UsageError("translate: --seed is the seed of sampling; add --sample TEMPERATURE, or omit it")
        from_options = dict(self._overrides())
        settings = [text if text.startswith("search.") else f"search.{text}" for text in self.settings or ()]
        for text in settings:
            for override, option in from_options.items():
                if option is not None and _overlap(text, override):
                    raise UsageError(f"translate: --set {text} and {option} set the same key; give one of them")
        defaults = {
            override
            for override, option in from_options.items()
            if option is None and any(_overlap(text, override) for text in settings)
        }
        return [*(override for override in from_options if override not in defaults), *settings]

    def _overrides(self) -> Iterator[tuple[str, str | None]]:
        """Pairs of an override and the option that states it; None: a default, which --set may replace."""
        if self.beam_size is not None:
            yield f"search.beam_size={self.beam_size}", "--beam-size"
        if self.sample is not None:
            yield "search.method.kind=sampling", "--sample"
            yield f"search.method.temperature={self.sample}", "--sample"
            yield f"search.method.num_samples={self.n_best or 1}", None
            yield f"search.method.seed={1 if self.seed is None else self.seed}", None if self.seed is None else "--seed"
        if self.n_best is not None or self.sample is not None:
            yield f"search.n_best={self.n_best or 1}", None if self.n_best is None else "--n-best"
        if self.length_penalty is not None:
            yield f"search.length_penalty={self.length_penalty}", "--length-penalty"
        if self.max_length is not None:
            yield "search.max_length.factor=0", "--max-length"
            yield f"search.max_length.offset={self.max_length}", "--max-length"
            yield "search.max_length.max=null", "--max-length"


def _overlap(one: str, other: str) -> bool:
    """Return whether two overrides set the same key, or one a key and the other a key below it."""
    first, second = (f"{text.partition('=')[0]}." for text in (one, other))
    return first.startswith(second) or second.startswith(first)


LanguageModel = Annotated[
    Path | None, typer.Option("--lm", metavar="MODEL", help="Language model that ranks translations too.")
]
LanguageModelWeight = Annotated[
    float | None,
    typer.Option("--lm-weight", min=0, help="Weight of the language model's log-probability (default: 0.2)."),
]
LanguageModelMode = Literal["fusion", "rerank"]
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
    return LanguageModelOptions(model=model, weight=weight, mode=mode or "fusion")
