"""The recipe's `search:`, and the union of the search methods."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from mtkit.config import Limits, config
from mtkit.search.hypothesis import SearchSettings, SpecialIds
from mtkit.search.length_penalty import Average, LengthPenalty, LengthPenaltyConfig

if TYPE_CHECKING:
    from mtkit.search.beam import StoppingRule
    from mtkit.search.constraints import Constraint
    from mtkit.search.interface import Search
    from mtkit.search.single_path import Sampling


class SearchMethod(ABC):
    """Base of the search methods: their capabilities and defaults; a method overrides those that differ.

    A method also has a `seed`: None, or the key of a random one.
    """

    num_hypotheses_key: ClassVar[str] = "beam_size"  # key below `search` that sets the number of hypotheses followed
    ignored_keys: ClassVar[frozenset[str]] = frozenset()  # keys below `search` that have no effect on this method
    is_sampling: ClassVar[bool] = False  # hypotheses are drawn at random, and do not compete while they grow

    def num_hypotheses(self, beam_size: int) -> int:
        """Hypotheses of a sentence that are in the batch at once."""
        return beam_size

    def check(self, beam_size: int) -> None:  # noqa: B027 (most methods work with any beam size)
        """Raise ValueError if the method does not work with this beam size."""

    @abstractmethod
    def build(self, settings: SearchSettings) -> Search:
        """The search."""


@config
class BeamConfig(SearchMethod):
    """Beam search (see BeamSearch); greedy search (see SinglePathSearch) if beam_size is 1."""

    kind: Literal["beam"] = "beam"

    seed: ClassVar[None] = None

    def build(self, settings: SearchSettings) -> Search:
        """See SearchMethod."""
        from mtkit.search.beam import build_beam_search
        from mtkit.search.beam_state import TopExtensions

        return build_beam_search(settings, TopExtensions())


@config
class DiverseBeamConfig(SearchMethod):
    """Beam search in groups of hypotheses that penalise each other's tokens (see DiverseBeam)."""

    kind: Literal["diverse"] = "diverse"
    # Number of groups, of beam_size / groups hypotheses each; it must divide beam_size. Default: one hypothesis in each
    # group of the default beam, the most diverse.
    groups: Annotated[int, Limits(gt=0)] = 5
    # Cost lambda in nats of each use of a token by an earlier group at the same step. Default: the middle of the
    # paper's good values, 0.2 to 0.8.
    diversity_strength: Annotated[float, Limits(ge=0)] = 0.5

    seed: ClassVar[None] = None

    def check(self, beam_size: int) -> None:
        """See SearchMethod."""
        if beam_size % self.groups:
            raise ValueError(f"method.groups: {self.groups} does not divide beam_size {beam_size}")

    def build(self, settings: SearchSettings) -> Search:
        """See SearchMethod."""
        from mtkit.search.beam import build_beam_search
        from mtkit.search.beam_state import DiverseBeam

        return build_beam_search(settings, DiverseBeam(groups=self.groups, diversity_strength=self.diversity_strength))


@config
class SamplingConfig(SearchMethod):
    """Sample tokens from softmax(logits / temperature), truncated by all of the options and renormalised.

    `beam_size`, `patience`, `early_stopping` and `coverage_penalty` have no effect (see Sampling).
    """

    kind: Literal["sampling"] = "sampling"
    # Divisor of the logits; below 1 it sharpens the distribution. Default: 1, the model's own distribution.
    temperature: Annotated[float, Limits(ge=0.001)] = 1.0
    # Number of the most probable tokens that are sampled from (Fan et al. 2018); 0 is all. Default: 0, no truncation.
    top_k: Annotated[int, Limits(ge=0)] = 0
    # Probability mass of the smallest set of tokens that is sampled from (Holtzman et al. 2020). Default: 1, no
    # truncation.
    top_p: Annotated[float, Limits(gt=0, le=1)] = 1.0
    # Least probability of a token that is sampled (Hewitt et al. 2022). Default: 0, no truncation; 0.02 suits minimum
    # Bayes risk reranking.
    epsilon: Annotated[float, Limits(ge=0, lt=1)] = 0.0
    # Number of samples of each line, of which the n_best by score are returned. Default: 1, one translation.
    num_samples: Annotated[int, Limits(gt=0)] = 1
    # Seed of the random numbers; equal seeds give equal samples, whatever the batch. Default: any number will do.
    seed: Annotated[int, Limits(ge=0, lt=2**63)] = 1

    num_hypotheses_key: ClassVar[str] = "method.num_samples"
    is_sampling: ClassVar[bool] = True
    ignored_keys: ClassVar[frozenset[str]] = frozenset({"beam_size", "patience", "early_stopping", "coverage_penalty"})

    def num_hypotheses(self, beam_size: int) -> int:
        """See SearchMethod."""
        return self.num_samples

    def build(self, settings: SearchSettings) -> Search:
        """See SearchMethod."""
        from mtkit.search.single_path import SinglePathSearch

        return SinglePathSearch(settings, self.chooser(), self.num_samples)

    def chooser(self) -> Sampling:
        """Chooser of the next token."""
        from mtkit.search.single_path import EpsilonTruncation, NucleusTruncation, Sampling, TopKTruncation, Truncation

        truncations: list[Truncation] = [NucleusTruncation(self.top_p), EpsilonTruncation(self.epsilon)]
        if self.top_k:
            truncations.append(TopKTruncation(self.top_k))
        return Sampling(temperature=self.temperature, truncations=tuple(truncations), seed=self.seed)


SearchMethodConfig = BeamConfig | DiverseBeamConfig | SamplingConfig


Factor = Annotated[float, Limits(ge=0, le=1000)]
NumTokens = Annotated[int, Limits(ge=0, le=10_000)]  # far above any sentence: a larger number is a mistake


@config
class LengthLimit:
    """A number of target tokens, factor · source tokens + offset; ends of sentences are not counted."""

    # Target tokens per source token. Default: 0, no limit that grows with the source.
    factor: Factor = 0.0
    # Target tokens that are added, whatever the length of the source. Default: 0, so that a translation may be empty.
    offset: NumTokens = 0

    def of(self, source_length: int) -> int:
        """The limit for a source of `source_length` tokens."""
        return int(self.factor * source_length) + self.offset


@config
class MaxLength(LengthLimit):
    """The smaller of factor · source tokens + offset and `max`; by default for targets much longer than the source."""

    # Target tokens per source token. Default: translations are rarely twice as long as the source.
    factor: Factor = 2.0
    # Target tokens that are added, whatever the length of the source. Default: short sources may have much longer
    # translations.
    offset: NumTokens = 10
    # Upper bound of the limit in target tokens. Default: null has none.
    max: NumTokens | None = None

    number_key: ClassVar[str] = "max"

    def of(self, source_length: int) -> int:
        """The limit for a source of `source_length` tokens."""
        limit = super().of(source_length)
        return limit if self.max is None else min(limit, self.max)


@config
class MinimumBayesRiskConfig:
    """Rank the hypotheses by their mean similarity to all others (see MinimumBayesRisk)."""

    kind: Literal["mbr"] = "mbr"
    # Similarity of two translations. Default: chrf, which is finer than bleu on single sentences.
    metric: Literal["chrf", "bleu"] = "chrf"


@config
class SearchConfig:
    """Settings of the search. A number as `length_penalty` means {kind: average, alpha: that number}."""

    # Hypotheses of each sentence that the search follows; time is about proportional. 1 is greedy search. Default: more
    # than 5 rarely translate better.
    beam_size: Annotated[int, Limits(gt=0, le=1000)] = 5
    # Number of translations that are returned for each line. Default: 1, the best alone.
    n_best: Annotated[int, Limits(gt=0)] = 1
    # Length penalty of finished hypotheses; a number alpha divides the log-probability by length^alpha. Default: 1, the
    # mean of a token; 0 has no penalty and favours short translations.
    length_penalty: Annotated[float, Limits(ge=0, le=9)] | LengthPenaltyConfig = 1.0
    # Upper limit on the tokens of a translation; a number N is {max: N}. Default: more than nearly any translation
    # needs, so that it stops loops alone.
    max_length: MaxLength = field(default_factory=MaxLength)
    # Lower limit on the tokens of a translation. Default: none; a trained model knows when to end.
    min_length: LengthLimit = field(default_factory=LengthLimit)
    # Factor of beam_size that gives the number of finished hypotheses at which a line is done. Default: 1, as in most
    # toolkits.
    patience: Annotated[float, Limits(ge=1)] = 1.0
    # Whether a line is done when patience * beam_size hypotheses have ended; false goes on until the best live
    # hypothesis, scored as if it ended now, is no better than the worst of the best beam_size that have ended. Default:
    # true, as in most toolkits; false is the default of transformers, for models of theirs.
    early_stopping: bool = True
    # Weight beta of the coverage penalty (GNMT); it needs attention over the source. Default: 0, off, as in most
    # toolkits; 0.2 is GNMT's.
    coverage_penalty: Annotated[float, Limits(ge=0)] = 0.0
    # Length of the n-grams that may not occur twice in a translation; 0 allows all. Default: 0, because names and
    # phrases may repeat; `retry_loops` deals with loops.
    no_repeat_ngram: Annotated[int, Limits(ge=0)] = 0
    # Factor of the log-probabilities of tokens that were generated before; 1 is off. Default: 1, for the same reason as
    # `no_repeat_ngram`.
    repetition_penalty: Annotated[float, Limits(ge=1)] = 1.0
    # Whether the unknown token may be generated. Default: false, since no reader can use it.
    allow_unknown: bool = False
    # Whether lines longer than any training source are translated in parts. Default: true; models fail on longer ones.
    split_long_lines: bool = True
    # Whether a line that ran into a loop is translated again, with no 4-gram twice. Default: true; few lines pay for
    # it, and loops are useless.
    retry_loops: bool = True
    # Search method. Default: beam, the best for one translation of a line.
    method: SearchMethodConfig = field(default_factory=BeamConfig)
    # Another ranking of the hypotheses of a line. Default: null ranks by score.
    rerank: MinimumBayesRiskConfig | None = None

    def __post_init__(self) -> None:
        key = self.method.num_hypotheses_key
        if self.n_best > self.num_hypotheses:
            remedy = f"lower n_best (--n-best) or raise {key}"
            raise ValueError(f"n_best: {self.n_best} exceeds {key} {self.num_hypotheses}; {remedy}")
        if self.rerank is not None and self.num_hypotheses == 1:
            raise ValueError(f"rerank: there is only one hypothesis to choose from; raise {key}")
        self.method.check(self.beam_size)

    @property
    def num_hypotheses(self) -> int:
        """Hypotheses of a sentence that are in the batch at once."""
        return self.method.num_hypotheses(self.beam_size)

    def ignored_keys(self) -> dict[str, str]:
        """Keys that have no effect because of another one, each with that one's setting."""
        ignored = dict.fromkeys(self.method.ignored_keys, f"method.kind {self.method.kind}")
        if not self.early_stopping:
            ignored.setdefault("patience", "early_stopping false")
        if self.is_single_path:
            ignored = {"patience": "beam_size 1", "early_stopping": "beam_size 1"} | ignored
        return ignored

    @property
    def is_single_path(self) -> bool:
        """True if hypotheses do not compete while they grow: sampling, and greedy search, a beam of one."""
        return self.method.is_sampling or (self.beam_size == 1 and not self.coverage_penalty)

    @property
    def num_returned(self) -> int:
        """Hypotheses of a sentence that the search returns: the n best, or all if they are to be reranked."""
        return self.n_best if self.rerank is None else self.num_hypotheses

    @property
    def num_kept(self) -> int:
        """Finished hypotheses that the search keeps: those returned, or all that PresentScoreReached compares."""
        return self.num_returned if self.early_stopping or self.is_single_path else self.num_hypotheses

    def limited_to(self, max_target_length: int | None, *, begin: Sequence[int] = ()) -> SearchConfig:
        """This search for a model that can generate `max_target_length` tokens, the end of sentence counted.

        Args:
            max_target_length: None: any number of tokens.
            begin: tokens that every translation begins with, which its length does not count, but the model does.
        """
        if max_target_length is None:
            return self
        longest = max(0, max_target_length - 1 - len(begin))
        longest = longest if self.max_length.max is None else min(longest, self.max_length.max)
        return replace(self, max_length=replace(self.max_length, max=longest))

    def with_plain_beam(self, beam_size: int) -> SearchConfig:
        """Beam search for the single best translation, with this search's limits, penalties and constraints."""
        return replace(self, beam_size=beam_size, **ONE_BEST)

    def penalty(self) -> LengthPenalty:
        """The length penalty."""
        if isinstance(self.length_penalty, int | float):
            return Average(alpha=float(self.length_penalty))
        return self.length_penalty

    def stopping_rules(self) -> tuple[StoppingRule, ...]:
        """Rules any of which ends the beam search of a line."""
        from mtkit.search.beam import BoundReached, EnoughEnded, PresentScoreReached

        return (EnoughEnded(self.patience), BoundReached()) if self.early_stopping else (PresentScoreReached(),)

    def without_constraints(self) -> SearchConfig:
        """This search without `constraints`."""
        return replace(self, repetition_penalty=1.0, no_repeat_ngram=0)

    def constraints(self) -> tuple[Constraint, ...]:
        """Constraints that apply to every line."""
        from mtkit.search.constraints import NoRepeatNgram, RepetitionPenalty

        constraints: list[Constraint] = []
        if self.repetition_penalty > 1:
            constraints.append(RepetitionPenalty(self.repetition_penalty))
        if self.no_repeat_ngram:
            constraints.append(NoRepeatNgram(self.no_repeat_ngram))
        return tuple(constraints)

    def build(self, special_ids: SpecialIds, *, with_log_probs: bool = True, with_attention: bool = False) -> Search:
        """The search of the reference implementation; arguments as the attributes of SearchSettings."""
        settings = SearchSettings(
            config=self, special_ids=special_ids, with_log_probs=with_log_probs, with_attention=with_attention
        )
        return self.method.build(settings)


# what `with_plain_beam` replaces besides beam_size
ONE_BEST: dict[str, Any] = {"n_best": 1, "rerank": None, "method": BeamConfig()}
