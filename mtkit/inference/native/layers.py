"""The layers that the native library serves, in its structures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mtkit.inference.known_layers import is_known_decoder_layer, is_known_encoder_layer
from mtkit.inference.native.packing import PackedLinear, address
from mtkit.inference.native.structures import LINEARS, Layer, Norm, StackStructure
from mtkit.layers.attention.cross import CrossAttention
from mtkit.layers.norms.norm import RMSNorm
from mtkit.layers.norms.residual import PreNorm
from mtkit.layers.positions.rope import MAX_CACHED, RoPE, rotate_halves
from mtkit.models.transformer.layers import DecoderLayer
from mtkit.models.transformer.stack import Stack as Layers

NO_NORM, LAYER_NORM, RMS_NORM = 0, 1, 2  # as in c/layers.h
ACTIVATIONS: dict[Callable[[Tensor], Tensor], int] = {F.relu: 1, F.gelu: 2, F.silu: 3}  # as in c/products.h
SOURCE_PARTS = ("source_query", "source_key_value", "source_out")


class NativeStack:
    """The layers of an encoder or a decoder, packed for the native library.

    Attributes:
        structure: the argument of the library's functions.
        heads: of self-attention, at each depth.
        source_heads: of cross-attention, at each depth; 0 in an encoder.
        head_dim: K.
        rotation: the rotary positions of all layers; None: there are none.
    """

    def __init__(self, stack: Layers, final_norm: nn.Module, dtype: torch.dtype, alignment_layer: int = -1) -> None:
        """Pack the layers of a stack for which `serves` holds.

        Args:
            stack: encoder or decoder.
            final_norm: after the last layer.
            dtype: type of the weights.
            alignment_layer: the depth whose attention to the source a step returns.
        """
        self._kept: list[Any] = []  # what the structures point to
        distinct: list[Any] = list(stack)
        layers = [self._layer(each, dtype) for each in distinct]
        first, array = distinct[0].attention, (Layer * len(stack.order))(*(layers[index] for index in stack.order))
        self.heads = [layers[index].heads for index in stack.order]
        self.source_heads = [layers[index].source_heads for index in stack.order]
        self.head_dim: int = first.heads.head_dim
        self.rotation = first.position if isinstance(first.position, RoPE) else None
        self._first_rotations = self.rotations(torch.arange(MAX_CACHED))  # [MAX_CACHED, K]
        source = _cross_attention(distinct[0])
        self.structure = StackStructure(
            layers=array,
            final_norm=self._norm(final_norm),
            scale=first.kernel.dot_product.position.scale(self.head_dim),
            source_scale=0 if source is None else source.dot_product.position.scale(self.head_dim),
            num_layers=len(stack.order),
            d_model=first.query_key_value.in_features,
            head_dim=self.head_dim,
            rotate_halves=self.rotation is not None and self.rotation.rotate_pairs is rotate_halves,
            alignment_layer=alignment_layer,
        )

    def rotations(self, pos: Tensor) -> Tensor | None:
        """Cosine and sine of the rotary positions pos [...], [..., K]; None: there are none."""
        if self.rotation is None:
            return None
        return torch.view_as_real(self.rotation.rotations(pos)).flatten(-2).contiguous()

    def rotation_at(self, pos: int) -> Tensor | None:
        """`rotations` of one position, [K]; those of the first positions are computed once."""
        if self._first_rotations is None or pos >= MAX_CACHED:
            return self.rotations(torch.tensor(pos))
        return self._first_rotations[pos]

    def _layer(self, layer: Any, dtype: torch.dtype) -> Layer:
        own, source = layer.attention, _cross_attention(layer)
        projections = {
            "query_key_value": own.query_key_value,
            "out": own.out,
            "inner": layer.feed_forward.inner,
            "outer": layer.feed_forward.outer,
        }
        if source is not None:
            parts = (source.query, source.key_value, source.out)
            projections.update(zip(SOURCE_PARTS, parts, strict=True))
        packed = {name: PackedLinear.of(each.weight, each.bias, dtype) for name, each in projections.items()}
        self._kept.append(packed)
        structure = Layer(
            **{name: packed[name].linear for name in LINEARS if name in packed},
            norm=self._norm(layer.attention_residual.norm),
            feed_forward_norm=self._norm(layer.feed_forward_residual.norm),
            heads=own.heads.num_heads,
            source_heads=0 if source is None else source.heads.num_heads,
            activation=ACTIVATIONS[layer.feed_forward.activation],
            is_pre_norm=isinstance(layer.attention_residual, PreNorm),
        )
        if source is not None:
            structure.source_norm = self._norm(layer.cross_attention_residual.norm)
        return structure

    def _norm(self, norm: Any) -> Norm:
        if isinstance(norm, nn.Identity):
            return Norm(kind=NO_NORM)
        is_rms = isinstance(norm, RMSNorm)
        weight, bias = (
            None if each is None else each.detach().float().contiguous()
            for each in (norm.weight, None if is_rms else norm.bias)
        )
        self._kept.append((weight, bias))
        epsilon = norm.epsilon if is_rms else norm.eps
        return Norm(address(weight), address(bias), epsilon, RMS_NORM if is_rms else LAYER_NORM)


def serves(stack: Layers, final_norm: nn.Module, *, is_decoder: bool) -> bool:
    """Return whether the native library has all layers of an encoder or decoder."""
    layers: Sequence[Any] = list(stack)
    is_known = is_known_decoder_layer if is_decoder else is_known_encoder_layer
    if not all(is_known(layer) and layer.feed_forward.activation in ACTIVATIONS for layer in layers):
        return False
    if type(final_norm) not in (nn.LayerNorm, RMSNorm, nn.Identity):
        return False
    if is_decoder and any(type(layer.cross_attention) is not CrossAttention for layer in layers):
        return False
    return all(_has_uniform_sublayers(layer) for layer in layers) and len({*map(_shared_settings, layers)}) == 1


def _shared_settings(layer: Any) -> tuple[Any, ...]:
    """The settings that all layers must have in common for the library."""
    own, source, width = layer.attention, _cross_attention(layer), layer.attention.heads.head_dim
    return (
        width,
        own.position if isinstance(own.position, RoPE) else None,
        own.kernel.dot_product.position.scale(width),
        None if source is None else source.dot_product.position.scale(width),
    )


def _has_uniform_sublayers(layer: Any) -> bool:
    """Return whether the sublayers have one kind of residual connection, and the heads one width."""
    residuals, attention = [layer.attention_residual, layer.feed_forward_residual], [layer.attention]
    if isinstance(layer, DecoderLayer):
        residuals.append(layer.cross_attention_residual)
        attention.append(layer.cross_attention)
    return len({type(each) for each in residuals}) == len({each.heads.head_dim for each in attention}) == 1


def _cross_attention(layer: Any) -> Any:
    """Return the attention to the source of a layer of the decoder; None for one of the encoder."""
    return layer.cross_attention if isinstance(layer, DecoderLayer) else None
