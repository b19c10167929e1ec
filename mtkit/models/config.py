"""Protocol of a model family's configuration: the keys and capabilities that the rest of mtkit relies on.

A model family is one module (or folder) with a frozen dataclass that satisfies `ModelConfig`, and one line in the union
`AnyModelConfig` of `mtkit/models/__init__.py`. Everything else looks at capabilities, not at classes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, Protocol

from mtkit.layers.heads import Heads
from mtkit.layers.positions import PositionConfig
from mtkit.models.interface import TranslationModel


class PositionStack(NamedTuple):
    """A stack of layers with its position encoding, for plots.

    Attributes:
        is_causal: queries attend to preceding positions only.
        embedding: path of the submodule that may add an encoding to the embeddings.
        first_layer: path of the submodule whose attention may use positions.
    """

    side: Literal["encoder", "decoder"]
    positions: PositionConfig
    d_model: int
    heads: Heads
    is_causal: bool
    embedding: str
    first_layer: str


class ModelConfig(Protocol):
    """Configuration of a model family; capabilities may be class variables or properties."""

    @property
    def kind(self) -> str:
        """Name of the family in recipes."""
        ...

    @property
    def tied_embeddings(self) -> Literal["all", "target", "none"]:
        """Shared weight matrices: source, target and output embeddings; the last two; or none."""
        ...

    @property
    def has_attention(self) -> bool:
        """Whether decoder steps return attention weights over the source."""
        ...

    @property
    def has_encoder(self) -> bool:
        """Whether an encoder returns states [B, S, D] that a masked language model can be trained on."""
        ...

    @property
    def predicts_source(self) -> bool:
        """Whether source states depend on preceding tokens only, so that they can predict the next source token."""
        ...

    @property
    def has_data_dependent_steps(self) -> bool:
        """Whether the number or the shapes of a forward pass's operations depend on the data (see torch.compile)."""
        ...

    @property
    def skips_layers(self) -> bool:
        """Whether training skips layers at random, differently on each process."""
        ...

    def max_lengths(self) -> Mapping[str, int]:
        """Maximum sentence length in tokens, end of sentence included, by the key that sets it; empty if unlimited."""
        ...

    def max_target_length(self) -> int | None:
        """Maximum translation length in tokens, end of sentence included; None if unlimited."""
        ...

    def position_stacks(self) -> Sequence[PositionStack]:
        """Stacks with a position encoding; empty for a family without one."""
        ...

    def build(self, src_vocab: int, tgt_vocab: int) -> TranslationModel:
        """Build the model for vocabularies of these sizes.

        Raises:
            ValueError: tied_embeddings is "all" and the vocabularies differ.
        """
        ...
