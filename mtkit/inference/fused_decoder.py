"""A step of a Transformer's decoder in few operations, for the layers of the paper.

One token of one sentence needs little arithmetic, and most of its time is the overhead of operations. Here a step calls
a quarter of the operations of the layers as they are written: keys and values of all layers have one mask (see
StackedCache), and rotations, the source's mask and the position are computed once for all layers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mtkit.corpus.order.batch import Source
from mtkit.inference.absorbed_cross_attention import AbsorbedCrossAttention
from mtkit.inference.stacked_cache import StackedCache
from mtkit.layers import matmul
from mtkit.layers.cache.kv_cache import KVCache
from mtkit.layers.norms.residual import PreNorm
from mtkit.layers.positions.rope import MAX_CACHED, RoPE, rotate_interleaved
from mtkit.layers.projections import Projection
from mtkit.models.interface import State, Step
from mtkit.models.transformer.model import EncoderMemory, Transformer

Function = Callable[[Tensor], Tensor]
IN_PLACE: dict[Function, Function] = {F.relu: torch.relu_}  # activations that overwrite their argument


class FusedTransformer(Transformer):
    """The function of a Transformer, which is not changed, with another `start` and `step`."""

    def __init__(self, of: Transformer) -> None:
        nn.Module.__init__(self)
        self.src_embedding, self.tgt_embedding = of.src_embedding, of.tgt_embedding
        self.encoder, self.decoder = of.encoder, of.decoder
        self.encoder_norm, self.decoder_norm = of.encoder_norm, of.decoder_norm
        self.output, self.alignment_layer = of.output, of.alignment_layer
        self.layers = [FusedLayer(layer) for layer in of.decoder]
        self.final_norm = function_of(of.decoder_norm)
        self.eval()

    def start(self, source: Source) -> State:
        """See TranslationModel."""
        state = super().start(source)
        real = self._first_memory(state).real
        if real is not None and real.dtype == torch.bool:  # a sentence without tokens: the layers as they are written
            return state
        heads = [self.layers[index].heads.num_heads for index in self.decoder.order]
        head_dim, table = self.layers[0].heads.head_dim, self.tgt_embedding.table.weight
        return replace(state, cache=StackedCache.empty(heads, state.num_rows, head_dim, table))

    def step(self, token: Tensor, state: State) -> Step:
        """See TranslationModel."""
        if not isinstance(state.cache, StackedCache) or not isinstance(state.memory, EncoderMemory):
            return super().step(token, state)
        cache, memory = state.cache.extended(), state.memory
        pos = token.new_full((1, 1), cache.next_pos - 1)
        x = self.tgt_embedding(token.unsqueeze(1), pos).squeeze(1)  # [rows, D]
        own_mask, source_mask = cache.slot_mask(), _source_mask(self._first_memory(state))
        rotation, attention = self.layers[0].rotation(cache.next_pos - 1, pos), None
        for depth, index in enumerate(self.decoder.order):
            layer = self.layers[index]
            x = layer.attend_to_self(x, cache, depth, own_mask, rotation)
            x, weights = layer.attend_to_source(x, memory.layer(index), source_mask)
            x = layer.feed_forward(x)
            if depth == self.alignment_layer:
                attention = weights[..., : memory.layer(index).length]  # [rows, H, S]
        return Step(self.final_norm(x), replace(state, cache=cache), attention)

    def _first_memory(self, state: State) -> KVCache:
        return state.memory.layers[0]  # type: ignore[attr-defined, no-any-return]


class FusedLayer:
    """One decoder layer: the three sublayers applied to x [rows, D], one new token of each hypothesis."""

    def __init__(self, of: Any) -> None:
        """Take the parts of a DecoderLayer for which `can_be_fused` holds."""
        own, source, inner = of.attention, of.cross_attention, of.feed_forward
        self.heads, self.source_heads, self.position = own.heads, source.heads, own.position
        self.scale = own.kernel.dot_product.position.scale(own.heads.head_dim)
        self.qkv, self.out = function_of(own.query_key_value), function_of(own.out)
        self.query, self.source_out = function_of(source.query), function_of(source.out)
        self.absorbed = source if isinstance(source, AbsorbedCrossAttention) else None
        if self.absorbed is not None:
            width = self.absorbed.key_proj_absorbed.size(2)
            self.key_proj = self.absorbed.key_proj_absorbed * source.dot_product.position.scale(width)  # [H, K, D]
            self.value_proj = self.absorbed.value_proj_absorbed  # [H, D, K]
        self.inner, self.outer = function_of(inner.inner), function_of(inner.outer)
        self.activation = IN_PLACE.get(inner.activation, inner.activation)
        self.self_residual, self.source_residual, self.inner_residual = (
            FusedResidual(each)
            for each in (of.attention_residual, of.cross_attention_residual, of.feed_forward_residual)
        )

    def rotation(self, pos: int, pos_tensor: Tensor) -> Tensor | None:
        """The rotations [K/2] of RoPE at a position, the same in all layers; None without RoPE."""
        if not isinstance(self.position, RoPE):
            return None
        if pos < MAX_CACHED:
            return self.position.cached_rotations[pos]
        return self.position.rotations(pos_tensor).view(-1)

    def attend_to_self(
        self, x: Tensor, cache: StackedCache, depth: int, mask: Tensor | None, rotation: Tensor | None
    ) -> Tensor:
        """Self-attention, whose keys and values are written to the cache; `mask` is that of its slots."""
        heads, width = self.heads.num_heads, self.heads.head_dim
        projected = self.qkv(self.self_residual.pre(x)).view(cache.num_sentences, -1, 3, heads, width)
        if rotation is not None:
            self._rotate(projected.narrow(2, 0, 2), rotation)
        keys, vals = cache.append(depth, projected.narrow(2, 1, 2))  # [N·H, M, K]
        q = scaled_queries(projected.select(2, 0), self.scale)  # [N·H, W, K]
        weights = masked_softmax(torch.bmm(q, keys.mT), mask, heads)
        y = torch.bmm(weights, vals)  # [N·H, W, K]
        return self.self_residual.post(x, self.out(rows_of_heads(y, heads)))

    def attend_to_source(self, x: Tensor, memory: KVCache, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Cross-attention; also returns the weights [rows, H, S or more]."""
        heads = self.source_heads.num_heads
        q = self.query(self.source_residual.pre(x))  # [rows, D]
        if self.absorbed is not None:
            y, weights = self._attend_absorbed(q, memory, mask)
        else:
            keys, vals = memory.keys.data, memory.vals.data  # [N, H, S or more, K]
            q = scaled_queries(q.view(keys.size(0), -1, heads, keys.size(3)), self.scale)
            weights = masked_softmax(torch.bmm(q, keys.flatten(0, 1).mT), mask, heads)
            y = rows_of_heads(torch.bmm(weights, vals.flatten(0, 1)), heads)
            weights = weights.view(keys.size(0), heads, -1, keys.size(2)).transpose(1, 2).flatten(0, 1)
        return self.source_residual.post(x, self.source_out(y)), weights

    def _attend_absorbed(self, q: Tensor, memory: KVCache, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """See AbsorbedCrossAttention: queries [rows, D] of one hypothesis per sentence or of W."""
        heads, head_dim, width = self.key_proj.shape
        states = memory.vals.data.squeeze(1)  # [N, S or more, D]
        rows, sentences = q.size(0), states.size(0)
        q = torch.bmm(q.view(rows, heads, head_dim).transpose(0, 1), self.key_proj)  # [H, rows, D]
        q = q.transpose(0, 1)
        if rows != sentences:
            q = q.reshape(sentences, -1, width)
        scores = torch.bmm(q, states.mT)  # [N, W·H, S]
        if mask is not None:
            scores.add_(mask.squeeze(1))
        weights = scores.softmax(-1)
        y = torch.bmm(weights, states).view(rows, heads, width).transpose(0, 1)  # [H, rows, D]
        y = torch.bmm(y, self.value_proj)  # [H, rows, K]
        return y.transpose(0, 1).reshape(rows, -1), weights.view(rows, heads, -1)

    def feed_forward(self, x: Tensor) -> Tensor:
        """The position-wise layer."""
        y = self.outer(self.activation(self.inner(self.inner_residual.pre(x))))
        return self.inner_residual.post(x, y)

    def _rotate(self, queries_keys: Tensor, rotation: Tensor) -> None:
        """Rotate queries and keys [N, W, 2, H, K] in place."""
        if self.position.rotate_pairs is rotate_interleaved:
            torch.view_as_complex(torch.unflatten(queries_keys, -1, (-1, 2))).mul_(rotation)
        else:
            queries_keys.copy_(self.position.rotate_pairs(queries_keys, rotation))


class FusedResidual:
    """A residual connection of x [rows, D]; `post` overwrites its second argument."""

    def __init__(self, of: Any) -> None:
        self.norm, self.is_pre_norm = function_of(of.norm), isinstance(of, PreNorm)

    def pre(self, x: Tensor) -> Tensor:
        """See Residual."""
        return self.norm(x) if self.is_pre_norm else x

    def post(self, x: Tensor, y: Tensor) -> Tensor:
        """See Residual."""
        return y.add_(x) if self.is_pre_norm else self.norm(y.add_(x))


def scaled_queries(q: Tensor, scale: float) -> Tensor:
    """Queries [N, W, H, K] times a factor, as [N·H, W, K]."""
    sentences, beam, heads, width = q.shape
    scaled = q.new_empty(sentences, heads, beam, width)
    return torch.mul(q.transpose(1, 2), scale, out=scaled).view(-1, beam, width)


def rows_of_heads(y: Tensor, heads: int) -> Tensor:
    """Results of heads [N·H, W, K] as [N·W, D]."""
    _, beam, width = y.shape
    return y.view(-1, heads, beam, width).transpose(1, 2).reshape(-1, heads * width)


def masked_softmax(scores: Tensor, mask: Tensor | None, heads: int) -> Tensor:
    """Weights of scores [N·H, W, S], which are overwritten; the mask [N, 1, W or 1, S] is added."""
    if mask is not None:
        scores.view(-1, heads, *scores.shape[1:]).add_(mask)
    return scores.softmax(-1)


def _source_mask(memory: KVCache) -> Tensor | None:
    """Additive mask [B, 1, 1, S or more] of padding and of slots beyond the source."""
    missing = memory.vals.data.size(2) - memory.length
    real = memory.real
    if real is None:
        if not missing:
            return None
        real = memory.vals.data.new_zeros(1, memory.length)
    if missing:
        real = F.pad(real, (0, missing), value=torch.finfo(real.dtype).min)
    return real[:, None, None, :]


def function_of(module: nn.Module) -> Function:
    """The function [rows, D] -> [rows, D'] of a module, without the overhead of a module's call."""
    if type(module) is nn.Identity:
        return lambda x: x
    if type(module) is nn.LayerNorm:
        shape, weight, bias, epsilon = module.normalized_shape, module.weight, module.bias, module.eps
        return lambda x: torch.layer_norm(x, shape, weight, bias, epsilon)
    if type(module) is Projection:
        linear = F.linear if matmul.chosen_library() == "blas" else matmul.affine
        return partial(linear, weight=module.weight, bias=module.bias)
    return module.forward
