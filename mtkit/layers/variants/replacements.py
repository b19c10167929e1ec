"""Replacements of self-attention: SSRU and average attention in decoders, gMLP in encoders."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mtkit.errors import DataError
from mtkit.layers.attention import AttentionParts, TokenMixer, check_state
from mtkit.layers.cache import BatchedState, EmptyState
from mtkit.layers.config import DenseConfig
from mtkit.layers.projections import embedding, linear

if TYPE_CHECKING:
    from mtkit.layers.variants.config import AverageAttentionConfig, GatedMLPConfig, SSRUConfig


@dataclass(frozen=True)
class SSRUState(BatchedState):
    """c of the last token, [rows, D], float32."""

    c: Tensor


class SSRU(TokenMixer):
    """c_t = f_t * c_{t-1} + (1 - f_t) * W x_t with f_t = sigmoid(W_f x_t + b_f); the output is ReLU(c_t).

    Kim et al. 2019, sec. 3.2. https://aclanthology.org/D19-5632
    The state and the cost of a step do not grow with the output. The recurrence makes the order of tokens known without
    positions. It is computed in float32 at least.
    """

    def __init__(self, config: SSRUConfig, parts: AttentionParts) -> None:
        super().__init__()
        self.forget = linear(parts.d_model, parts.d_model)
        self.value = linear(parts.d_model, parts.d_model, bias=False)

    def value_path_weights(self) -> list[Tensor]:
        """See Sublayer."""
        return [self.value.weight]

    def forward(
        self, x: Tensor, pos: Tensor, *, real: Tensor | None = None, past: BatchedState | None = None
    ) -> tuple[Tensor, BatchedState]:
        """See TokenMixer.

        Raises:
            ValueError: the past is the state of another kind of layer.
        """
        before = check_state(past, SSRUState)
        dtype = torch.promote_types(x.dtype, torch.float32)
        decay = torch.sigmoid(self.forget(x).to(dtype))  # [B, T, D]
        new = (1 - decay) * self.value(x).to(dtype)  # [B, T, D]
        if real is not None:  # padding leaves the state unchanged
            decay, new = decay.masked_fill(~real.unsqueeze(-1), 1.0), new * real.unsqueeze(-1)
        if before is not None:
            first = new[:, :1] + decay[:, :1] * before.c.unsqueeze(1)
            new = torch.cat([first, new[:, 1:]], 1)
        c = linear_recurrence(decay, new)  # [B, T, D]
        return c.relu().to(x.dtype), SSRUState(c[:, -1])


def linear_recurrence(decay: Tensor, x: Tensor) -> Tensor:
    """Parallel scan: c_t = decay_t · c_{t-1} + x_t from c_0 = 0, for all t in log2(T) passes.

    Pairs (decay, x) compose associatively, so that each pass joins the results of 1, 2, 4, ... preceding steps (Hillis
    & Steele 1986; Martin & Cundy 2018, https://arxiv.org/abs/1709.04057). Products of decays in [0, 1] cannot overflow.

    Args:
        decay: [B, T, D], in [0, 1].
        x: [B, T, D].

    Returns:
        [B, T, D].
    """
    length, offset = x.size(1), 1
    while offset < length:
        before_x, before_decay = x[:, :-offset], decay[:, :-offset]
        x = torch.cat([x[:, :offset], x[:, offset:] + decay[:, offset:] * before_x], 1)
        decay = torch.cat([decay[:, :offset], decay[:, offset:] * before_decay], 1)
        offset *= 2
    return x


@dataclass(frozen=True)
class AverageState(BatchedState):
    """Sum of the tokens so far [rows, D], float32, and their number [rows]."""

    total: Tensor
    count: Tensor


class AverageAttention(TokenMixer):
    """y_t = i_t * x_t + f_t * g_t with g_t = FFN(mean of x_1 .. x_t) and gates [i; f] = sigmoid(W [x_t; g_t]).

    Zhang et al. 2018, eq. 1 to 3. https://arxiv.org/abs/1805.00631
    The state and the cost of a step do not grow with the output. The average does not depend on the order of tokens;
    only position embeddings express it. Sums are computed in float32 at least.
    """

    def __init__(self, config: AverageAttentionConfig, parts: AttentionParts) -> None:
        super().__init__()
        d_model = parts.d_model
        self.feed_forward = nn.Identity() if config.d_ff is None else DenseConfig().build(d_model, config.d_ff, 0.0)
        self.gates = linear(2 * d_model, 2 * d_model)

    def value_path_weights(self) -> list[Tensor]:
        """None of its own; the feed-forward layer lists its weights itself."""
        return []

    def forward(
        self, x: Tensor, pos: Tensor, *, real: Tensor | None = None, past: BatchedState | None = None
    ) -> tuple[Tensor, BatchedState]:
        """See TokenMixer.

        Raises:
            ValueError: the past is the state of another kind of layer.
        """
        before = check_state(past, AverageState)
        real = torch.ones_like(pos, dtype=torch.bool) if real is None else real  # [B, T]
        tokens = x.to(torch.promote_types(x.dtype, torch.float32)) * real.unsqueeze(-1)
        total, count = tokens.cumsum(1), real.cumsum(1)  # [B, T, D], [B, T]
        if before is not None:
            total, count = total + before.total.unsqueeze(1), count + before.count.unsqueeze(1)
        g = self.feed_forward((total / count.clamp(min=1).unsqueeze(-1)).to(x.dtype))  # [B, T, D]
        input_gate, forget_gate = self.gates(torch.cat([x, g.to(x.dtype)], -1)).sigmoid().chunk(2, dim=-1)
        return input_gate * x + forget_gate * g, AverageState(total[:, -1], count[:, -1])


SPATIAL_INIT_STD = 1e-3  # "near-zero values" (sec. 2.1): with a bias of 1 the gate then begins as the identity


class GatedMLP(TokenMixer):
    """y = V s(GELU(U x)) with the spatial gating unit s([z1; z2]) = z1 * (W norm(z2) + b), W [n, n] over positions.

    Liu et al. 2021, eq. 1 to 4. https://arxiv.org/abs/2105.08050 The sum over positions leaves out padding, and W and b
    are indexed by position, so that neither padding nor other sentences change the result. The paper's block replaces
    attention and feed-forward together; here it replaces self-attention, and the layer keeps its feed-forward.
    E is the width of z, of which z1 and z2 have half each, and n the key max_length.
    """

    def __init__(self, config: GatedMLPConfig, parts: AttentionParts) -> None:
        super().__init__()
        d_model, max_length = parts.d_model, config.max_length
        d_inner = config.d_inner or 2 * d_model
        self.max_length = max_length
        self.inner = linear(d_model, d_inner)  # U
        self.norm = nn.LayerNorm(d_inner // 2)
        self.spatial = embedding(2 * max_length - 1, 1) if config.toeplitz else embedding(max_length, max_length)  # W
        self.spatial_bias = nn.Parameter(torch.ones(max_length))  # b
        self.outer = linear(d_inner // 2, d_model)  # V
        nn.init.normal_(self.spatial.weight, std=SPATIAL_INIT_STD)

    def value_path_weights(self) -> list[Tensor]:
        """See Sublayer."""
        return [self.inner.weight, self.outer.weight]

    def forward(
        self, x: Tensor, pos: Tensor, *, real: Tensor | None = None, past: BatchedState | None = None
    ) -> tuple[Tensor, BatchedState]:
        """See TokenMixer.

        Raises:
            DataError: a position is beyond W.
            ValueError: there is a past.
        """
        if past is not None:
            raise ValueError("gMLP processes whole sentences; it cannot decode step by step")
        length = int(pos.max()) + 1 if pos.numel() else 0  # S'
        if length > self.max_length:
            raise DataError(
                f"a sentence of {length} tokens is longer than the {self.max_length} positions of gMLP; raise "
                "max_length of encoder_attention, or use another kind"
            )
        z1, z2 = F.gelu(self.inner(x)).chunk(2, dim=-1)  # [B, S, E/2]
        z2 = self.norm(z2).to(x.dtype)
        if real is not None:
            z2 = z2 * real.unsqueeze(-1).to(z2.dtype)
        index = pos.unsqueeze(-1).expand_as(z2)  # [B, S, E/2]
        by_position = z2.new_zeros(x.size(0), length, z2.size(-1)).scatter_add(1, index, z2)  # [B, S', E/2]
        if self.spatial.embedding_dim > 1:
            spatial = self.spatial.weight[:length, :length]
        else:  # one weight per distance
            row = torch.arange(length, device=pos.device)
            spatial = self.spatial.weight[row.unsqueeze(1) - row + self.max_length - 1].squeeze(-1)
        gate = spatial.to(z2.dtype) @ by_position  # [S', S'] @ [B, S', E/2]
        gate = gate + self.spatial_bias[:length, None].to(gate.dtype)
        return self.outer(z1 * gate.gather(1, index).to(z1.dtype)), EmptyState()
