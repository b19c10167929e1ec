"""Search settings by engine: one table, from which refusals, exported settings and notes about the rest follow.

A cell is a function of the search and of the key's value. It returns the engine's options for it, by name; None: the
engine does not compute this value. Of a key without a cell an engine computes the neutral value alone. A new key of
SearchConfig needs no row while every engine but the reference implementation is to refuse it: its neutral value is then
its default.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args

from mtkit.search.config import BeamConfig, LengthLimit, SamplingConfig, SearchConfig
from mtkit.search.length_penalty import Average

ExportTarget = Literal["ctranslate2", "onnx", "huggingface", "argos"]
Engine = Literal["native", ExportTarget]
ENGINES: tuple[Engine, ...] = get_args(Engine)
Options = Mapping[str, Any]
Cell = Callable[[SearchConfig, Any], Options | None]

FIXED_TOKENS = 2  # that transformers' maximum length counts and ours does not: the decoder's first one, and the end
EXACT_PATIENCE = 1e6  # transformers' "never": the search ends when the bound of the score says so


def _any(search: SearchConfig, value: Any) -> Options:
    """A key that the engine computes without an option."""
    return {}


def _named(option: str) -> Cell:
    """A key that the engine has under another name."""
    return lambda search, value: {option: value}


def _only(fixed: Any) -> Cell:
    """A key that has one value in the engine."""
    return lambda search, value: {} if value == fixed else None


def _alpha(search: SearchConfig, value: Any) -> Options | None:
    penalty = search.penalty()
    return {"length_penalty": penalty.alpha} if isinstance(penalty, Average) else None


def _transformers_limit(option: str, added: int) -> Cell:
    """A limit that is the same for all sources; transformers counts more tokens."""

    def cell(search: SearchConfig, value: LengthLimit) -> Options | None:
        return None if value.factor else {option: value.of(0) + added}

    return cell


def _transformers_patience(search: SearchConfig, value: float) -> Options | None:
    if value == 1:
        return {}
    return {"early_stopping": "never"} if value >= EXACT_PATIENCE else None


# the keys of sampling that an engine computes; a search with another one is refused
NATIVE_SAMPLING = ("kind", "temperature", "top_k", "top_p", "epsilon", "num_samples", "seed")
TRANSFORMERS_SAMPLING = {"temperature": "temperature", "top_k": "top_k", "top_p": "top_p", "epsilon": "epsilon_cutoff"}


def _samples_only_by(method: Any, keys: Iterable[str]) -> bool:
    """Return whether a method is sampling, and all of its keys but these have their defaults."""
    return isinstance(method, SamplingConfig) and all(
        key.name in keys or getattr(method, key.name) == key.default for key in fields(method)
    )


def _native_method(search: SearchConfig, value: Any) -> Options | None:
    return {} if value == BeamConfig() or _samples_only_by(value, NATIVE_SAMPLING) else None


def _transformers_method(search: SearchConfig, value: Any) -> Options | None:
    """transformers truncates one distribution after another, and returns all samples."""
    if value == BeamConfig():
        return {}
    if not _samples_only_by(value, ("kind", "num_samples", "seed", *TRANSFORMERS_SAMPLING)):
        return None
    if value.num_samples != search.n_best or (value.top_k > 0) + (value.top_p < 1) + (value.epsilon > 0) > 1:
        return None
    return {"do_sample": True, **{theirs: getattr(value, ours) for ours, theirs in TRANSFORMERS_SAMPLING.items()}}


@dataclass(frozen=True)
class Row:
    """A search key, in each engine.

    Attributes:
        neutral: the value without effect.
        wraps_search: mtkit computes the key around any search, so that a comparison of searches leaves it out.
    """

    neutral: Any
    cells: Mapping[Engine, Cell] = field(default_factory=dict)
    wraps_search: bool = False

    def options(self, engine: Engine, search: SearchConfig, value: Any) -> Options | None:
        """The engine's options for the key's value; None: the engine does not compute it."""
        return self.cells[engine](search, value) if engine in self.cells else None


TABLE: dict[str, Row] = {
    "beam_size": Row(
        1, {"native": _any, "ctranslate2": _named("beam_size"), "huggingface": _named("num_beams"), "argos": _only(4)}
    ),
    "n_best": Row(
        1, {"native": _any, "ctranslate2": _named("num_hypotheses"), "huggingface": _named("num_return_sequences")}
    ),
    "length_penalty": Row(0.0, {"native": _any, "ctranslate2": _alpha, "huggingface": _alpha, "argos": _only(0.2)}),
    # CTranslate2 has limits for a call, which depend on its sources
    "max_length": Row(
        None, {"native": _any, "ctranslate2": _any, "huggingface": _transformers_limit("max_length", FIXED_TOKENS)}
    ),
    "min_length": Row(
        LengthLimit(), {"native": _any, "ctranslate2": _any, "huggingface": _transformers_limit("min_length", 1)}
    ),
    "early_stopping": Row(
        True, {"native": _named("stops_early"), "ctranslate2": _only(True), "huggingface": _named("early_stopping")}
    ),
    "patience": Row(
        1.0,
        {
            "native": lambda search, value: {"enough_ends": value * search.num_hypotheses},
            "ctranslate2": _named("patience"),
            "huggingface": _transformers_patience,
        },
    ),
    "coverage_penalty": Row(0.0, {"native": _named("coverage_weight")}),
    "no_repeat_ngram": Row(
        0,
        {
            "native": _named("no_repeat_ngram"),
            "ctranslate2": _named("no_repeat_ngram_size"),
            "huggingface": _named("no_repeat_ngram_size"),
        },
    ),
    # CTranslate2 penalises logits, whose signs differ; so does transformers where it samples, and log-probabilities in
    # beam search
    "repetition_penalty": Row(
        1.0,
        {
            "native": lambda search, value: {"repetition_penalty": value if value > 1 else 0.0},
            "huggingface": lambda search, value: None if search.is_single_path else {"repetition_penalty": value},
        },
    ),
    # transformers excludes the token by its id, as all that are never generated
    "allow_unknown": Row(
        True, {"native": _any, "ctranslate2": lambda search, value: {"disable_unk": not value}, "huggingface": _any}
    ),
    "split_long_lines": Row(False, {"native": _any}, wraps_search=True),
    "retry_loops": Row(False, {"native": _any}, wraps_search=True),
    "method": Row(
        BeamConfig(),
        {"native": _native_method, "ctranslate2": _only(BeamConfig()), "huggingface": _transformers_method},
    ),
    "rerank": Row(None, {"native": _any}),
}


def rows(search: SearchConfig) -> dict[str, Row]:
    """The row of each key that is not ignored because of another one, in the order of the table."""
    defaults = {key.name: key.default for key in fields(search)}
    known = {name: row for name, row in TABLE.items() if name in defaults}
    added = {name: Row(default) for name, default in defaults.items() if name not in known}
    ignored = search.ignored_keys()
    return {name: row for name, row in {**known, **added}.items() if name not in ignored}


def options(engine: Engine, search: SearchConfig) -> dict[str, Any]:
    """The options of an engine for a search, by its names; those of keys that it does not compute are left out."""
    chosen: dict[str, Any] = {}
    for name, row in rows(search).items():
        chosen |= row.options(engine, search, getattr(search, name)) or {}
    return chosen


def unsupported(engine: Engine, search: SearchConfig, *, with_wrappers: bool = True) -> list[str]:
    """The keys that have an effect on a search, and that an engine does not compute at their value."""
    return [
        name
        for name, row in rows(search).items()
        if (with_wrappers or not row.wraps_search)
        and getattr(search, name) != row.neutral
        and row.options(engine, search, getattr(search, name)) is None
    ]
