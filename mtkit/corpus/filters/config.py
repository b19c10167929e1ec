"""Configurations of the filters of sentence pairs, `corpus.filters` in a recipe."""

from __future__ import annotations

from dataclasses import MISSING, fields
from pathlib import Path
from typing import Annotated, ClassVar, Literal, get_args

from mtkit.config import Limits, config

Weight = Annotated[float, Limits(ge=0, le=1)]
MIN_LETTERS_OF_LINE = 20  # lines of the corpora with as many: none of 9,000 is taken for another language


@config
class FilterConfigBase:
    """Keys of all filters.

    Attributes:
        builds: class that `construct` makes of the config, see `Filter`.
        what: the fault, as the subject of a sentence about pairs.
        reads_held_out: whether the faults depend on valid and test.
    """

    builds: ClassVar[str]
    what: ClassVar[str]
    reads_held_out: ClassVar[bool] = False
    # Weight in training of the pairs that have the fault: 0 removes them, 1 only flags them. Pairs with several faults
    # have the lowest of the weights. Default: 0 where clean corpora hardly have the fault, 1 otherwise.
    weight: Weight = 0.0

    @property
    def models(self) -> tuple[Path, ...]:
        """Models that the faults depend on."""
        return ()


@config
class EmptyFilterConfig(FilterConfigBase):
    """Pairs with a blank side."""

    kind: Literal["empty"] = "empty"
    builds: ClassVar[str] = "corpus.filters.pair:EmptyFilter"
    what: ClassVar[str] = "one side is empty"


@config
class LengthFilterConfig(FilterConfigBase):
    """Pairs with a long side."""

    kind: Literal["length"] = "length"
    builds: ClassVar[str] = "corpus.filters.pair:LengthFilter"
    what: ClassVar[str] = "one side is longer than a sentence"
    # Largest number of characters of a side. Default: hardly any sentence is longer, and preprocessing drops lines of
    # more than 256 tokens in any case.
    max_characters: Annotated[int, Limits(gt=0)] = 4000


@config
class RatioFilterConfig(FilterConfigBase):
    """Pairs whose lengths differ more than usual in this text."""

    kind: Literal["odd_lengths"] = "odd_lengths"
    builds: ClassVar[str] = "corpus.filters.pair:RatioFilter"
    what: ClassVar[str] = "the lengths differ much more than usual"
    # Ratio of the lengths in characters, relative to the median ratio of the text; `mtkit check` and `mtkit new`
    # use the default. Default: clean corpora have it in 1 of 1,000 pairs.
    max_ratio: Annotated[float, Limits(gt=1)] = 4.0


@config
class CharacterFilterConfig(FilterConfigBase):
    """Pairs with bytes that are not UTF-8, text that was decoded wrongly, or characters that are no text."""

    kind: Literal["characters"] = "characters"
    builds: ClassVar[str] = "corpus.filters.pair:CharacterFilter"
    what: ClassVar[str] = "bytes or characters that are no text"


@config
class MarkupFilterConfig(FilterConfigBase):
    """Pairs with HTML on one side alone."""

    kind: Literal["markup"] = "markup"
    builds: ClassVar[str] = "corpus.filters.pair:MarkupFilter"
    what: ClassVar[str] = "HTML tags or entities on one side alone"
    weight: Weight = 1.0


@config
class CopyFilterConfig(FilterConfigBase):
    """Pairs whose sides are equal, apart from spaces and capitals."""

    kind: Literal["copies"] = "copies"
    builds: ClassVar[str] = "corpus.filters.pair:CopyFilter"
    what: ClassVar[str] = "both sides are equal"
    # Smallest number of words of a copy. Default: names, numbers and commands are translated by themselves; a sentence
    # of three words hardly ever is.
    min_words: Annotated[int, Limits(gt=0)] = 3


@config
class RepetitionFilterConfig(FilterConfigBase):
    """Pairs of which a side repeats its words, as the output of a model that loops."""

    kind: Literal["repeated"] = "repeated"
    builds: ClassVar[str] = "corpus.filters.pair:RepetitionFilter"
    what: ClassVar[str] = "a side repeats its words"


@config
class ScriptFilterConfig(FilterConfigBase):
    """Pairs of which a side is written in another script than most of the text."""

    kind: Literal["script"] = "script"
    builds: ClassVar[str] = "corpus.filters.language:ScriptFilter"
    what: ClassVar[str] = "another script than the rest"
    # Letters of a line from which on it counts. Default: names and commands of foreign scripts are shorter.
    min_letters: Annotated[int, Limits(gt=0)] = MIN_LETTERS_OF_LINE


@config
class LanguageFilterConfig(FilterConfigBase):
    """Pairs of which a side is surely in another language than the rest, or than stated."""

    kind: Literal["language"] = "language"
    builds: ClassVar[str] = "corpus.filters.language:LanguageFilter"
    what: ClassVar[str] = "another language than the rest"
    # Letters of a line from which on it is classified. Default: of thousands of lines of clean corpora with as many,
    # none is taken for another language.
    min_letters: Annotated[int, Limits(gt=0)] = MIN_LETTERS_OF_LINE


@config
class LexiconFilterConfig(FilterConfigBase):
    """Pairs whose words are no translations of each other, by a lexicon of the text itself (IBM Model 1)."""

    kind: Literal["lexicon"] = "lexicon"
    builds: ClassVar[str] = "corpus.filters.scores:LexiconFilter"
    what: ClassVar[str] = "the words are no translations of each other"
    # Probability that a pair is two random lines, from which on it has the fault; the share of such pairs in the text
    # is estimated. Default: what is more probably noise than not.
    min_noise: Annotated[float, Limits(gt=0, lt=1)] = 0.5


@config
class DuplicateFilterConfig(FilterConfigBase):
    """Pairs that occur before."""

    kind: Literal["duplicates"] = "duplicates"
    builds: ClassVar[str] = "corpus.filters.duplicates:DuplicateFilter"
    what: ClassVar[str] = "the pair occurs before"


@config
class NearDuplicateFilterConfig(FilterConfigBase):
    """Pairs that hardly differ from an earlier one (MinHash)."""

    kind: Literal["near_duplicates"] = "near_duplicates"
    builds: ClassVar[str] = "corpus.filters.duplicates:NearDuplicateFilter"
    what: ClassVar[str] = "the pair hardly differs from an earlier one"
    weight: Weight = 1.0
    # Jaccard similarity of the pairs of neighbouring words of both sides, without signs and capitals. Default: two
    # words of twenty may differ. Of pairs with 0.9, 99% are found; of those with 0.8, 77%.
    min_similarity: Annotated[float, Limits(ge=0.5, le=1)] = 0.9


@config
class HeldOutFilterConfig(FilterConfigBase):
    """Pairs of which a side is in valid or test, apart from spaces and capitals, as `mtkit new` leaves them out."""

    kind: Literal["leak"] = "leak"
    builds: ClassVar[str] = "corpus.filters.pair:HeldOutFilter"
    what: ClassVar[str] = "a side is in valid or test"
    reads_held_out: ClassVar[bool] = True


@config
class NumberFilterConfig(FilterConfigBase):
    """Pairs with a number of two digits or more on one side alone."""

    kind: Literal["numbers"] = "numbers"
    builds: ClassVar[str] = "corpus.filters.pair:NumberFilter"
    what: ClassVar[str] = "numbers of one side are missing on the other"
    weight: Weight = 1.0


@config
class AddressFilterConfig(FilterConfigBase):
    """Pairs with an address of the web on one side alone."""

    kind: Literal["urls"] = "urls"
    builds: ClassVar[str] = "corpus.filters.pair:AddressFilter"
    what: ClassVar[str] = "addresses of one side are missing on the other"
    weight: Weight = 1.0


@config
class CrossEntropyFilterConfig(FilterConfigBase):
    """Pairs that two models, one of each direction, find improbable or disagree about.

    Junczys-Dowmunt 2018, eq. (1) and (2), https://aclanthology.org/W18-6478/ .
    """

    kind: Literal["dual_cross_entropy"] = "dual_cross_entropy"
    builds: ClassVar[str] = "corpus.filters.scores:CrossEntropyFilter"
    what: ClassVar[str] = "two models find the pair improbable"
    # Model folder or run folder of the direction of the text.
    forward: Path
    # Model folder or run folder of the opposite direction.
    backward: Path
    # Smallest exp(-(|H1 - H2| + (H1 + H2) / 2)), where H1 and H2 are the cross-entropies in nats a token. Default:
    # pairs below are improbable to both models: of 4 nats a token and more.
    min_score: Annotated[float, Limits(ge=0, le=1)] = 0.02

    @property
    def models(self) -> tuple[Path, ...]:
        """Both models."""
        return self.forward, self.backward


FilterConfig = (
    EmptyFilterConfig
    | LengthFilterConfig
    | RatioFilterConfig
    | CharacterFilterConfig
    | CopyFilterConfig
    | RepetitionFilterConfig
    | ScriptFilterConfig
    | LanguageFilterConfig
    | LexiconFilterConfig
    | HeldOutFilterConfig
    | DuplicateFilterConfig
    | NearDuplicateFilterConfig
    | MarkupFilterConfig
    | NumberFilterConfig
    | AddressFilterConfig
    | CrossEntropyFilterConfig
)


def default_filters() -> list[FilterConfig]:
    """All filters that need no key, such as a model, as `mtkit clean` uses them where no recipe states others."""
    required = (MISSING, MISSING)
    return [
        kind()
        for kind in get_args(FilterConfig)
        if all((key.default, key.default_factory) != required for key in fields(kind))
    ]
