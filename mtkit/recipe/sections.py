"""Recipe: the sections of a run's configuration as frozen dataclasses, their plain form, and their choices in words.

`recipe.py` builds it from YAML, `rules.py` checks it, and `defaults/choose.py` fills the keys that YAML leaves out.
"""

from __future__ import annotations

import html
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from typing import Annotated, Any, Literal

from mtkit.config import Limits, config
from mtkit.corpus.config import CorpusConfig
from mtkit.evaluation.config import EvaluationConfig
from mtkit.models.config import ModelConfig
from mtkit.models.transformer.config import TransformerConfig
from mtkit.recipe.paths import to_plain
from mtkit.search.config import SearchConfig
from mtkit.text.config import TokenizerConfig
from mtkit.training.config import TrainingConfig

NAME_OF_RUN = "a name of at most 200 characters without / that begins with neither . nor a space"
RunName = Annotated[str, Limits(pattern=r"^[^/\s.\x00-\x1f][^/\x00-\x1f\x7f]{0,199}\Z", description=NAME_OF_RUN)]


@config
class Recipe:
    """Configuration of a run.

    `load_recipe` reads it from YAML, with absolute paths and checked types and ranges. A recipe that is built in Python
    is checked in the same way by `mtkit.train` and `mtkit.run`; relative paths are then relative to the current
    directory.
    """

    # Name of the run, whose folder is runs/NAME.
    name: RunName
    # Files of training, validation and test, and their languages.
    corpus: CorpusConfig
    # Training of the tokenizer, or an existing one. Default: a BPE model for both sides.
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    # Model family and its sizes. Default: transformer, which translates best.
    model: ModelConfig = field(default_factory=TransformerConfig)
    # Objective, optimiser, schedule, checkpoints and limits of training. Default: suits a corpus like Multi30k.
    training: TrainingConfig = field(default_factory=TrainingConfig)
    # Search of translations, in evaluation and in `mtkit translate`. Default: beam search.
    search: SearchConfig = field(default_factory=SearchConfig)
    # Metrics of the test sets. Default: the metrics that papers report.
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    # Where omitted keys of tokenizer, model and training come from: chosen from the corpus (docs/defaults.md), or fixed
    # to the defaults of this page. Default: corpus, because no fixed size suits both 10,000 and 10 million sentences.
    defaults: Literal["corpus", "fixed"] = "corpus"
    # Reasons of the values that mtkit chose, for the reader of a saved recipe. Default: empty; mtkit writes it.
    chosen: dict[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        direction = f"{self.corpus.src_lang} to {self.corpus.tgt_lang}"
        return f"Recipe({self.name!r}, {direction}, {self.model.kind}, {self.training.max_updates:,} updates)"

    def _repr_html_(self) -> str:
        values = flatten(to_plain(self))
        text = "\n".join(f"{key}: {value}" for key, value in values if not key.startswith("chosen."))
        return f"<details><summary>{html.escape(repr(self))}</summary><pre>{html.escape(text)}</pre></details>"

    @property
    def scoring(self) -> EvaluationConfig:
        """`evaluation` for the translations of this recipe, which have no capitals if the tokenizer lower-cases."""
        return replace(self.evaluation, lowercase=self.evaluation.lowercase or self.tokenizer.lowercase)


def flatten(plain: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The values below a mapping, each with its path."""
    if not isinstance(plain, dict):
        yield path, plain
        return
    for key, value in plain.items():
        yield from flatten(value, f"{path}.{key}".lstrip("."))


def _value_at(plain: Any, key: str) -> Any:
    """Return the value at a path of nested mappings; None behind a value that is no mapping."""
    for part in key.split("."):
        plain = plain[part] if isinstance(plain, dict) else None
    return plain


def describe_choices(recipe: Recipe) -> list[str]:
    """Return the lines of `describe` for the values of a recipe that were chosen."""
    return describe(recipe.chosen, to_plain(recipe))


def describe(reasons: Mapping[str, str], plain: Mapping[str, Any]) -> list[str]:
    """Return the values and their reasons: "tokenizer.vocab_size 4,000: 4,600 pairs".

    Neighbouring keys of a section with one reason share a line: "model.d_model 128, d_ff 256: tiny: 127,241 tokens".
    Keys whose value is null, such as `training.budget_hours` without a budget, are left out.
    """
    sections = list(dict.fromkeys(key.partition(".")[0] for key in reasons))
    present = [key for key in reasons if _value_at(plain, key) is not None]
    present.sort(key=lambda key: sections.index(key.partition(".")[0]))
    lines = []
    for (section, reason), keys in itertools.groupby(present, lambda key: (key.partition(".")[0], reasons[key])):
        values = [f"{key.partition('.')[2]} {_short(_value_at(plain, key))}" for key in keys]
        lines.append(f"{section}.{', '.join(values)}: {reason}")
    return lines


def _short(value: Any) -> str:
    """Return a value for a reader: a section by its kind, numbers with commas, true and false as in YAML."""
    if isinstance(value, dict):
        value = value["kind"]
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:,}" if isinstance(value, int) else str(value)
