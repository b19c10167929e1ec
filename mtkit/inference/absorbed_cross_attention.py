"""Cross-attention to the encoder states themselves: key and value projections are absorbed by query and output.

The score of an encoder state m for a head is q · (W_K m) = (W_K^T q) · m, and the head returns W_V times the weighted
mean of the states. A bias of the keys changes no weight, and a bias of the values is added whatever the weights. The
two projections can therefore be applied to the query and to the result, as DeepSeek-AI 2024, sec. 2.1.2,
https://arxiv.org/abs/2405.04434 , does for its compressed keys. All layers then read the same states, and the source
needs no projection in each layer; but a query takes D multiplications for each state and head instead of K. That pays
for one hypothesis per sentence, not for a beam (measured: see tests/benchmarks/NOTES.md).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mtkit.layers.attention.cross import CrossAttention
from mtkit.layers.attention.masks import full
from mtkit.layers.attention.softmax import DotProductAttention
from mtkit.layers.cache.kv_cache import GrowableBuffer, KVCache
from mtkit.layers.positions.base import Position
from mtkit.layers.projections import Projection
from mtkit.models.interface import TranslationModel
from mtkit.models.transformer.model import Transformer

MAX_MULTIPLICATIONS = 2048  # of a query with one state, H·D; with more it does not pay
TOLERANCE = 1e-3  # relative; float32 sums of at most 2,048 products differ by less than 2048 · 2^-24 = 1.2e-4


class AbsorbedCrossAttention(CrossAttention):
    """The function of a CrossAttention, which is not changed; its memory are the encoder states."""

    shares_memory = True
    key_proj_absorbed: Tensor  # [H, K, D], scaled because DotProductAttention scales by the width D instead of K
    value_proj_absorbed: Tensor  # [H, D, K]

    def __init__(self, of: CrossAttention) -> None:
        nn.Module.__init__(self)
        self.heads, self.dot_product = of.heads, of.dot_product
        self.query, self.query_norm = of.query, of.query_norm
        heads, width = of.heads, of.key_value.in_features
        repeats = heads.num_heads // heads.num_kv_heads
        shape = (2, heads.num_kv_heads, heads.head_dim, width)
        k, v = of.key_value.weight.detach().view(shape).repeat_interleave(repeats, dim=1)  # [H, K, D]
        position = of.dot_product.position
        self.register_buffer("key_proj_absorbed", k * (position.scale(heads.head_dim) / position.scale(width)))
        self.register_buffer("value_proj_absorbed", v.mT.contiguous())
        self.out = Projection(of.out.in_features, of.out.out_features)
        self.out.weight = of.out.weight
        self.out.bias = nn.Parameter(_output_bias(of, repeats), requires_grad=False)

    def project(self, memory: Tensor, pos: Tensor, real: Tensor | None) -> KVCache:
        """The states [B, S, D] as keys and as values [B, 1, S, D]."""
        states = GrowableBuffer(memory.unsqueeze(1), memory.size(1))
        return KVCache(states, states, memory.size(1), pos, real)

    def forward(self, x: Tensor, pos: Tensor, memory: KVCache) -> tuple[Tensor, Tensor]:
        """See CrossAttention."""
        batch, length, _ = x.shape
        heads, head_dim, width = self.key_proj_absorbed.shape
        q = self.query_norm(self.query(x).view(batch * length, heads, head_dim))  # [B·T, H, K]
        q = torch.bmm(q.transpose(0, 1), self.key_proj_absorbed).view(heads, batch, length, width)  # [H, B, T, D]
        y, weights = self.dot_product(q.transpose(0, 1), pos, memory, memory.visible(full, pos))  # [B, H, T, D]
        y = torch.bmm(y.transpose(0, 1).flatten(1, 2), self.value_proj_absorbed)  # [H, B·T, K]
        return self.out(y.transpose(0, 1).reshape(batch, length, -1)), weights


def _output_bias(of: CrossAttention, repeats: int) -> Tensor:
    """Bias of the output projection plus the projected bias of the values, [D]."""
    bias = torch.zeros_like(of.out.weight[:, 0]) if of.out.bias is None else of.out.bias.detach().clone()
    if of.key_value.bias is not None:
        values = of.key_value.bias.detach().chunk(2)[1].view(-1, of.heads.head_dim)  # [G, K]
        bias += of.out.weight.detach() @ values.repeat_interleave(repeats, dim=0).flatten()
    return bias


def absorb_cross_attention(model: TranslationModel) -> None:
    """Replace the cross-attention of a Transformer's decoder, if that is possible, pays and agrees in all layers."""
    if not isinstance(model, Transformer):
        return
    attention: list[CrossAttention] = [layer.cross_attention for layer in model.decoder]  # type: ignore[misc]
    if not all(_can_be_absorbed(each) for each in attention):
        return
    absorbed = [AbsorbedCrossAttention(each) for each in attention]
    if all(_agree(*pair) for pair in zip(attention, absorbed, strict=True)):
        for layer, each in zip(model.decoder, absorbed, strict=True):
            layer.cross_attention = each


@torch.inference_mode()
def _agree(written: CrossAttention, rewritten: AbsorbedCrossAttention) -> bool:
    """Return whether both compute the same for a small input, so that a changed CrossAttention is never overridden."""
    generator = torch.Generator().manual_seed(0)  # leaves the global generator as it is
    width = written.key_value.in_features
    inputs = torch.randn(2, 5, width, generator=generator).to(written.out.weight)
    x, memory = inputs[:, :2], inputs[:, 2:]  # [2, 2, D], [2, 3, D]
    pos = torch.arange(3, device=x.device).expand(2, 3)
    real = pos < torch.tensor([[3], [2]], device=x.device)  # one key is padding
    outputs = []
    for attention in (written, rewritten):
        y, weights = attention(x, pos[:, :2], attention.project(memory, pos, real))
        outputs.append(torch.cat([y.flatten(), weights.flatten()]))
    tolerance = TOLERANCE * float(outputs[0].abs().max())
    return outputs[0].shape == outputs[1].shape and bool((outputs[0] - outputs[1]).abs().max() <= tolerance)


def _can_be_absorbed(attention: CrossAttention) -> bool:
    return (
        type(attention) is CrossAttention
        and type(attention.dot_product) is DotProductAttention
        and type(attention.dot_product.position) is Position
        and isinstance(attention.key_norm, nn.Identity)
        and attention.heads.value_dim == attention.heads.head_dim
        and attention.heads.num_heads * attention.key_value.in_features <= MAX_MULTIPLICATIONS
    )
