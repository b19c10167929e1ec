"""Capabilities of kinds of self-attention."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from mtkit.config import config, construct, load_class

if TYPE_CHECKING:
    from mtkit.layers.attention.kernel import AttentionKernel, TokenMixer
    from mtkit.layers.attention.multi_head import AttentionParts


@config
class AttentionConfigBase:
    """Capabilities of a kind of self-attention, which checks of recipes ask for; a kind overrides those that differ."""

    builds: ClassVar[str] = "layers.attention.multi_head:SelfAttention"  # or a replacement of it
    kernel: ClassVar[str]  # between the projections of SelfAttention
    is_causal_capable: ClassVar[bool] = True  # can hide following tokens, as a decoder needs
    is_encoder_capable: ClassVar[bool] = True  # can attend to following tokens, as an encoder should
    attends_to_all: ClassVar[bool] = False  # every query attends to every key that a causal mask shows
    has_queries_and_keys: ClassVar[bool] = True  # which rotary encodings and score biases act on
    computes_scores: ClassVar[bool] = True  # one for each pair of tokens, to which score biases are added
    is_recommended: ClassVar[bool] = True  # messages suggest it as a remedy; false of kinds for comparison
    needs_equal_heads: ClassVar[bool] = False  # has as many key/value heads as query heads
    needs_positions: ClassVar[bool] = False  # cannot infer the order of tokens from its own pattern

    def build(self, parts: AttentionParts) -> TokenMixer:
        """Build the sublayer."""
        return construct(self, parts)

    def build_kernel(self, parts: AttentionParts) -> AttentionKernel[Any]:
        """Build the kernel of SelfAttention."""
        kernel: AttentionKernel[Any] = load_class(self.kernel)(self, parts)
        return kernel

    @property
    def length_limit(self) -> int | None:
        """Maximum sentence length in tokens, end of sentence included; None if unlimited."""
        return None
