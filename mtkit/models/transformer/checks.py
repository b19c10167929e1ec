"""Checks of a Transformer's configuration: parts that work together, and parts that a program computes.

No kind is named in the former: a new kernel or position encoding is checked by its class variables
(AttentionConfigBase, PositionConfigBase), and the remedies of the messages list the kinds that have the missing
capability. The latter is for exporters and the native backend: a new kind of position encoding, norm or attention, and
a new key with another value than its default, are refused until a program lists them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, get_args

from mtkit.layers.config import LayerNormConfig, RMSNormConfig
from mtkit.layers.kinds import AttentionConfig, PositionConfig
from mtkit.models.capabilities import PositionStack

if TYPE_CHECKING:
    from mtkit.models.transformer.config import SharingConfig, TransformerConfig


@dataclass(frozen=True, kw_only=True)
class StackChoice(PositionStack):
    """Attention and positions that a recipe chose for one stack, by the keys that begin with the stack's side."""

    attention: AttentionConfig

    def length_limits(self) -> dict[str, int]:
        """Maximum sentence length in tokens, end of sentence included, by the key that sets it."""
        limits = {"positions": self.positions.length_limit, "attention": self.attention.length_limit}
        return {f"{self.side}_{key}.max_length": limit for key, limit in limits.items() if limit is not None}

    def check(self) -> None:
        """Refuse combinations that cannot work.

        Raises:
            ValueError: "key: reason; remedy".
        """
        attention, positions, heads = self.attention, self.positions, self.heads
        attention_key, positions_key = f"{self.side}_attention", f"{self.side}_positions"
        if self.is_causal and not attention.is_causal_capable:
            raise ValueError(
                f"{attention_key}.kind: {attention.kind} attends to following tokens and works in an encoder only; use "
                + _kinds(AttentionConfig, lambda kind: kind.is_causal_capable)
            )
        if not self.is_causal and not attention.is_encoder_capable:
            raise ValueError(
                f"{attention_key}.kind: {attention.kind} processes only preceding tokens and works in a decoder only; "
                f"use {_kinds(AttentionConfig, lambda kind: kind.is_encoder_capable)}"
            )
        if self.is_causal and positions.needs_whole_sentence:
            raise ValueError(
                f"{positions_key}.kind: {positions.kind} uses the length of the sentence, which is unknown while a "
                f"decoder writes it; use {_positions(lambda kind: not kind.needs_whole_sentence)}"
            )
        if positions.acts_in_attention and not attention.has_queries_and_keys:
            raise ValueError(
                f"{positions_key}.kind: {positions.kind} acts on queries and keys, and {attention.kind} has none; use "
                f"{_positions(lambda kind: not kind.acts_in_attention)}, or set {attention_key} to full"
            )
        if positions.needs_scores and not attention.computes_scores:
            raise ValueError(
                f"{positions_key}.kind: {positions.kind} changes the score of each pair of tokens, and "
                f"{attention.kind} attention does not compute scores; use "
                f"{_positions(lambda kind: not kind.needs_scores)}, or set {attention_key} to full, window or strided"
            )
        if attention.needs_positions and not positions.encodes_order:
            usable = _positions(
                lambda kind: (
                    (attention.has_queries_and_keys or not kind.acts_in_attention)
                    and (attention.computes_scores or not kind.needs_scores)
                )
            )
            raise ValueError(
                f"{positions_key}.kind: without positions, {attention.kind} attention cannot tell the order of the "
                f"tokens that it attends to; use {usable}, or set {attention_key} to full"
            )
        if positions.needs_even_head_dim and heads.head_dim % 2:
            raise ValueError(
                f"{positions_key}.kind: {positions.kind} rotates pairs of numbers, but the heads have width "
                f"{heads.head_dim}; change num_heads or set head_dim to an even number"
            )
        if attention.needs_equal_heads and heads.num_kv_heads != heads.num_heads:
            raise ValueError(
                f"{attention_key}.kind: {attention.kind} attention has no keys of its own, and num_kv_heads "
                f"{heads.num_kv_heads} is not num_heads {heads.num_heads}; omit num_kv_heads, or set {attention_key} "
                "to full"
            )


def _positions(is_usable: Callable[[Any], bool]) -> str:
    return _kinds(PositionConfig, lambda kind: kind.encodes_order and is_usable(kind))


def _kinds(union: Any, is_usable: Callable[[Any], bool]) -> str:
    """Names of the kinds of a union of configs that are usable: "a, b or c"."""
    configs = get_args(union)
    names = [config.kind for config in configs if config.is_recommended and is_usable(config)]
    return " or ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


@dataclass(frozen=True)
class HeadCounts:
    """Head counts of a stack's layers (None: `num_heads` in all), and what they depend on.

    Attributes:
        attention: self-attention of the stack; None for cross-attention.
        positions: position encoding of the stack; None for cross-attention.
    """

    counts: Sequence[int] | None
    layers: int
    attention: AttentionConfig | None
    positions: PositionConfig | None
    sharing: SharingConfig

    def check(self, key: str, *, num_heads: int, num_kv_heads: int | None) -> None:
        """Check the counts, which this key of the recipe sets.

        Raises:
            ValueError: the number of counts is not that of the layers, a count is not in 1 ... num_heads, or another
                key needs the same number of heads in all layers.
        """
        if self.counts is None:
            return
        if len(self.counts) != self.layers:
            raise ValueError(f"{key}: {len(self.counts)} counts for {self.layers} layers; give one for each layer")
        if not all(1 <= count <= num_heads for count in self.counts):
            raise ValueError(f"{key}: {list(self.counts)} has a count outside 1 to num_heads {num_heads}")
        needs_equal = {
            "num_kv_heads": num_kv_heads is not None,
            "layers that share weights": self.sharing.shares_layers,
            "attention other than full": self.attention is not None and not self.attention.attends_to_all,
            "positions with a bias for each head": self.positions is not None and self.positions.needs_scores,
        }
        if reasons := [reason for reason, holds in needs_equal.items() if holds]:
            raise ValueError(f"{key}: cannot be combined with {', '.join(reasons)}; omit it")

    def of_layer(self, index: int) -> int | None:
        """The count of a layer; None: `num_heads`."""
        return None if self.counts is None else self.counts[index]


# Keys that every program computes with any value, or that matter in training only.
ANY_VALUE = frozenset(
    {
        "kind",
        "d_model",
        "d_ff",
        "num_heads",
        "num_kv_heads",
        "head_dim",
        "dropout",
        "attention_dropout",
        "activation_dropout",
        "layerdrop",
        "alignment_head",
        "encoder_layers",
        "decoder_layers",
        "encoder_sharing",
        "decoder_sharing",
        "tied_embeddings",
        "scaled_embeddings",
        "scaled_output",
        "output_bias",
    }
)


@dataclass(frozen=True)
class AllowList:
    """The Transformers that a program computes; a key that is in neither list must have its default value.

    Attributes:
        any_value: keys with any value.
        kinds: of the parts of a model, by key.
        norms: of the residual connections.
    """

    any_value: Set[str]
    kinds: Mapping[str, tuple[type[Any], ...]]
    norms: tuple[type[Any], ...] = (LayerNormConfig, RMSNormConfig)

    def unsupported(self, config: TransformerConfig) -> Iterator[tuple[str, Any]]:
        """Yield the keys that the program does not compute, and their values or kinds."""
        default = type(config)()
        for name in (field.name for field in fields(config)):
            value = vars(config)[name]
            if name in self.kinds:
                if type(value) not in self.kinds[name]:  # a kind derived from a supported one may compute otherwise
                    yield f"{name}.kind", value.kind
                elif name == "residual" and type(value.norm) not in self.norms:
                    yield f"{name}.norm.kind", value.norm.kind
            elif name not in self.any_value and value != vars(default)[name]:
                yield name, value
