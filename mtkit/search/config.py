"""The recipe's `search:` and how it becomes a search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal

from pydantic import Field

from mtkit.search.beam.beam import BeamSearch
from mtkit.search.beam.coverage import Coverage
from mtkit.search.beam.diverse import Diverse, DiverseConfig
from mtkit.search.beam.selection import Best, Selection
from mtkit.search.constraints.constraint import Constraint
from mtkit.search.constraints.repeats import NoRepeatNgram, RepetitionPenalty
from mtkit.search.interface import Hypothesis, Request, Stepper, Symbols
from mtkit.search.length_penalty import Average, LengthPenalty, LengthPenaltyConfig
from mtkit.search.sampling import SamplingConfig
from mtkit.search.single_path import Walk

Search = Callable[[Stepper, Request], list[list[Hypothesis]]]


@dataclass(frozen=True, kw_only=True)
class LengthLimit:
    """a · source + b pieces; ends of sentences are not counted."""

    a: Annotated[float, Field(ge=0)] = 0.0
    b: Annotated[int, Field(ge=0)] = 0

    def of(self, source_length: int) -> int:
        """The limit for a source of so many pieces."""
        return int(self.a * source_length) + self.b


@dataclass(frozen=True, kw_only=True)
class MaxLength(LengthLimit):
    """Room for what is longer than its source."""

    a: Annotated[float, Field(ge=0)] = 2.0
    b: Annotated[int, Field(ge=0)] = 10
    most: Annotated[int, Field(ge=0)] | None = None  # but never more than so many; None: any number

    def of(self, source_length: int) -> int:
        """The limit for a source of so many pieces."""
        limit = super().of(source_length)
        return limit if self.most is None else min(limit, self.most)


@dataclass(frozen=True, kw_only=True)
class BeamConfig:
    """Beam search; greedy if beam_size is 1 (see BeamSearch)."""

    kind: Literal["beam"] = "beam"


MethodConfig = BeamConfig | DiverseConfig | SamplingConfig


@dataclass(frozen=True, kw_only=True)
class MinimumBayesRiskConfig:
    """Of all that the search finds, what is most like the rest comes first (see minimum_bayes_risk.py)."""

    kind: Literal["mbr"] = "mbr"
    metric: Literal["chrf", "bleu"] = "chrf"  # likeness of two translations; chrf is finer on single sentences


@dataclass(frozen=True, kw_only=True)
class SearchConfig:
    """How translations are looked for. A number as `length_penalty` means {kind: average, alpha: that number}."""

    beam_size: Annotated[int, Field(gt=0, le=1000)] = 5  # more is slower in proportion and rarely better
    n_best: Annotated[int, Field(gt=0)] = 1  # translations given for each line
    length_penalty: Annotated[float, Field(ge=0)] | LengthPenaltyConfig = 1.0  # 0: none, favours short translations
    max_length: MaxLength = field(default_factory=MaxLength)
    min_length: LengthLimit = field(default_factory=LengthLimit)
    patience: Annotated[float, Field(ge=1)] = 1.0  # a line is done when patience · beam_size hypotheses have ended
    coverage_penalty: Annotated[float, Field(ge=0)] = 0.0  # GNMT's beta, about 0.2; needs attention over the source
    no_repeat_ngram: Annotated[int, Field(ge=0)] = 0  # no n-gram of so many pieces twice; 0: off
    repetition_penalty: Annotated[float, Field(ge=1)] = 1.0  # log-probabilities of used pieces times this; 1: off
    allow_unknown: bool = False  # may the unknown piece be generated?
    split_long_lines: bool = True  # lines longer than any training source in parts; whole they are new to the model
    retry_loops: bool = True  # a line that ran into a loop is translated once more, with no 4-gram twice
    method: MethodConfig = field(default_factory=BeamConfig)
    rerank: MinimumBayesRiskConfig | None = None  # another order of the hypotheses of a line, best first

    def __post_init__(self) -> None:
        paths = self.method.samples if isinstance(self.method, SamplingConfig) else self.beam_size
        if self.n_best > paths:
            name = "method.samples" if isinstance(self.method, SamplingConfig) else "beam_size"
            raise ValueError(f"n_best: {self.n_best} is more than {name} {paths}; raise that or lower this")
        if self.rerank is not None and paths == 1:
            raise ValueError("rerank: there is one hypothesis and nothing to choose; raise beam_size or method.samples")
        if isinstance(self.method, DiverseConfig) and self.beam_size % self.method.groups:
            raise ValueError(f"method.groups: {self.method.groups} does not divide beam_size {self.beam_size}")

    @property
    def rows(self) -> int:
        """Hypotheses of a sentence that are in the batch at once."""
        return self.method.samples if isinstance(self.method, SamplingConfig) else self.beam_size

    @property
    def candidates(self) -> int:
        """Hypotheses of a sentence that the search gives: the n best, or all if they are to be ranked anew."""
        return self.n_best if self.rerank is None else self.rows

    def within(self, longest: int | None) -> SearchConfig:
        """The same, as far as a model goes that can write `longest` pieces, the end of sentence counted; None: any."""
        if longest is None:
            return self
        own = self.max_length.most
        most = longest - 1 if own is None else min(longest - 1, own)
        return replace(self, max_length=replace(self.max_length, most=most))

    def penalty(self) -> LengthPenalty:
        """The length penalty."""
        if isinstance(self.length_penalty, int | float):
            return Average(float(self.length_penalty))
        return self.length_penalty.build()

    def constraints(self) -> tuple[Constraint, ...]:
        """Those that hold for every line."""
        found: list[Constraint] = []
        if self.repetition_penalty > 1:
            found.append(RepetitionPenalty(self.repetition_penalty))
        if self.no_repeat_ngram:
            found.append(NoRepeatNgram(self.no_repeat_ngram))
        return tuple(found)

    def build(self, symbols: Symbols, *, with_log_probs: bool = True, with_attention: bool = False) -> Search:
        """The search.

        Args:
            symbols: ids with a meaning.
            with_log_probs: may be False if nobody looks at scores; greedy search is faster then.
            with_attention: give attention with the hypotheses.
        """
        sampling = isinstance(self.method, SamplingConfig)
        if sampling or (self.beam_size == 1 and self.coverage_penalty == 0):
            walk = Walk(
                symbols=symbols,
                penalty=self.penalty(),
                n_best=self.candidates,
                constraints=self.constraints(),
                with_log_probs=with_log_probs or self.rows > 1,
                with_attention=with_attention,
            )
            return self._drawing(walk)
        selection: Selection = Best()
        if isinstance(self.method, DiverseConfig):
            selection = Diverse(self.method.groups, self.method.strength)
        return BeamSearch(
            beam_size=self.beam_size,
            n_best=self.candidates,
            symbols=symbols,
            penalty=self.penalty(),
            patience=self.patience,
            constraints=self.constraints(),
            selection=selection,
            coverage=Coverage(self.coverage_penalty) if self.coverage_penalty else None,
            with_attention=with_attention,
        )

    def _drawing(self, walk: Walk) -> Search:
        if not isinstance(self.method, SamplingConfig):
            return walk
        return replace(walk, pick=self.method.build(), paths=self.method.samples)
