"""Base of a model family's configuration: the keys and capabilities that the rest of mtkit relies on.

A model family is a folder with its model and, in `config.py`, a frozen dataclass derived from `ModelConfigBase`, and
one line in the union `ModelConfig` of `mtkit/models/config.py`. Recipes are checked by capabilities, not by classes.
Code that computes with the modules of one family looks at its class: exporters, rewrites, compression, and the
objectives that need more of a model than `TranslationModel` has.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from mtkit.layers.kinds import PositionConfig
from mtkit.layers.sizes import Heads

if TYPE_CHECKING:
    from mtkit.models.interface import TranslationModel


# matrices that are one: all: source, target and output; embeddings: the first two; target: the last two
TieMode = Literal["all", "embeddings", "target", "none"]
ONE_TABLE, TIED_OUTPUT = frozenset({"all", "embeddings"}), frozenset({"all", "target"})


@dataclass(frozen=True, kw_only=True)
class PositionStack:
    """A stack of layers with its position encoding."""

    side: Literal["encoder", "decoder"]
    positions: PositionConfig
    d_model: int
    heads: Heads

    @property
    def is_causal(self) -> bool:
        """True if queries attend to preceding positions only."""
        return self.side == "decoder"


class ModelConfigBase(ABC):
    """Capabilities of a model family, on which checks, dry runs and plots rely; a family overrides those that differ.

    A capability is a class variable, or a property where it depends on the keys.
    """

    kind: str  # name of the family in recipes
    tied_embeddings: TieMode

    has_attention: ClassVar[bool] = False  # decoder steps return attention weights over the source
    has_attention_of_all_steps: ClassVar[bool] = False  # `decode_with_attention` returns those of a whole target side
    has_encoder: ClassVar[bool] = False  # `encode` returns states [B, S, D] for masked language modelling
    predicts_source: ClassVar[bool] = False  # source states depend on preceding tokens only, and can predict the next
    has_data_dependent_steps: ClassVar[bool] = False  # number or shapes of a forward pass's operations, for compile
    has_chosen_sizes: ClassVar[bool] = False  # has the sizes of a Transformer, which are chosen from the corpus
    skips_layers: ClassVar[bool] = False  # training skips layers at random, differently on each process

    has_low_rank_updates: ClassVar[bool] = False  # its projections are called as modules, so that LoRA acts on all

    def max_lengths(self) -> Mapping[str, int]:
        """Maximum sentence length in tokens, end of sentence included, by the key that sets it; empty if unlimited."""
        return {}

    def max_target_length(self) -> int | None:
        """Maximum translation length in tokens, end of sentence included; None if unlimited."""
        return None

    def position_stacks(self) -> Sequence[PositionStack]:
        """Stacks with a position encoding; empty for a family without one."""
        return ()

    @abstractmethod
    def build(self, src_vocab: int, tgt_vocab: int) -> TranslationModel:
        """Build the model for vocabularies of these sizes.

        Raises:
            ValueError: one table is for both sides, and their vocabularies differ.
        """
