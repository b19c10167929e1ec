"""Attention whose cost is linear in the length: projections of the keys, and random features of the softmax kernel."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from mtkit.errors import DataError
from mtkit.layers.attention import AttentionKernel, AttentionParts, check_state
from mtkit.layers.cache import AttentionState, KVCache
from mtkit.layers.matmul import no_autocast
from mtkit.layers.projections import embedding
from mtkit.layers.softmax import DotProductAttention

if TYPE_CHECKING:
    from mtkit.layers.variants.config import LinformerConfig, PerformerConfig


class LinformerAttention(AttentionKernel[KVCache]):
    """softmax(Q (E K)^T / sqrt(K)) F V with learned E and F [k, n], O(n·k).

    Wang et al. 2020, eq. 7, with E and F shared by the heads (sec. 4, "headwise sharing").
    https://arxiv.org/abs/2006.04768 . A column of E belongs to a position and padding has none, so that neither other
    sentences of the batch nor padding change the result. Projected keys depend on the whole sequence: for encoders.
    """

    def __init__(self, config: LinformerConfig, parts: AttentionParts) -> None:
        super().__init__(config, parts)
        self.dot_product = DotProductAttention(parts.position, parts.dropout)
        sizes = config.max_length, config.projected_length
        self.key_projection = embedding(*sizes)  # E^T; N(0, 1/k) as in the paper
        self.value_projection = embedding(*sizes)  # F^T

    def forward(self, q: Tensor, new: KVCache, past: KVCache | None) -> tuple[Tensor, KVCache]:
        """See AttentionKernel.

        Raises:
            DataError: a position is beyond the columns of E.
            ValueError: there is a past.
        """
        if past is not None:
            raise ValueError("Linformer projects whole sequences; it cannot decode step by step")
        max_length = self.key_projection.num_embeddings
        if new.pos.numel() and int(new.pos.max()) >= max_length:
            raise DataError(
                f"a sentence of {int(new.pos.max()) + 1} tokens is longer than the {max_length} positions of "
                "Linformer's projections; raise max_length of encoder_attention, or use another kind"
            )
        e = self.key_projection(new.pos).to(new.k.dtype)  # [B, S, k]
        f = self.value_projection(new.pos).to(new.v.dtype)  # [B, S, k]
        if new.real is not None:
            e, f = e * new.real.unsqueeze(-1), f * new.real.unsqueeze(-1)
        k, v = e.mT.unsqueeze(1) @ new.k, f.mT.unsqueeze(1) @ new.v  # [B, G, k, K]
        pos = new.pos.new_zeros(new.pos.size(0), k.size(2))  # [B, k]; projected keys have no position
        visible = None if new.real is None else new.real.any(1)[:, None, None, None]  # [B, 1, 1, 1]
        y, _ = self.dot_product(q, new.pos, KVCache.of(k, v, pos, None), visible)
        return y, new


CHUNK_SIZE = 64  # tokens of a chunk of causal attention
MAX_EXPONENT = 60.0  # exp(60), summed over a million tokens and squared, is still finite in float32


def orthogonal_features(num_features: int, width: int) -> Tensor:
    """Random vectors [num_features, width] with marginal N(0, I), orthogonal within each block of `width` vectors.

    Choromanski et al. 2021, sec. 2.4 and app. B.2: directions from a QR decomposition, norms of Gaussian vectors. The
    signs of R's diagonal are moved into Q, which is not uniformly distributed otherwise (Mezzadri 2007, sec. 5), so
    that the error would not vanish with more features. https://arxiv.org/abs/math-ph/0609050
    """
    q, r = torch.linalg.qr(torch.randn(-(-num_features // width), width, width))  # [., K, K]
    blocks: Tensor = q * r.diagonal(dim1=-2, dim2=-1).sign().unsqueeze(-2)
    norms: Tensor = torch.randn(num_features, width).norm(dim=1, keepdim=True)
    return blocks.flatten(0, 1)[:num_features] * norms


@dataclass(frozen=True)
class PrefixSums(AttentionState):
    """Sums over all preceding keys: of feature times value, and of the features alone."""

    sums: Tensor  # [rows, G, m, K + 1] float32; the last column belongs to a value of one


class PerformerAttention(AttentionKernel[PrefixSums]):
    """FAVOR+: softmax(Q K^T) V ~ phi(Q) (phi(K)^T V), normalised, in time and memory linear in the length.

    Choromanski et al. 2021, eq. 5 to 7 and sec. 2.3. https://arxiv.org/abs/2009.14794
    phi(x)_i = exp(w_i · x - |x|^2 / 2) / sqrt(m) with m orthogonal vectors w_i, which are drawn once and saved with the
    weights. The causal form computes prefix sums over chunks; its state is one sum, whatever the length. Tokens must be
    in order of their positions. Computed in float32.

    Features of a query are divided by their maximum, which cancels in the normalisation. Features of keys are not, so
    that no token changes the result of preceding ones. Attention dropout has no weights to act on.
    """

    projection_matrix: Tensor  # [m, K], the rows w_i

    def __init__(self, config: PerformerConfig, parts: AttentionParts) -> None:
        super().__init__(config, parts)
        self.position = parts.position
        self.causal = parts.causal
        self.register_buffer("projection_matrix", orthogonal_features(config.num_features, parts.heads.head_dim))

    def forward(self, q: Tensor, new: KVCache, past: PrefixSums | None) -> tuple[Tensor, PrefixSums]:
        """See AttentionKernel.

        Raises:
            ValueError: the past is the state of another kind of layer, or the kernel is not causal.
        """
        past = check_state(past, PrefixSums)
        if past is not None and not self.causal:
            raise ValueError("Performer attends to following tokens in an encoder; it cannot run step by step there")
        with no_autocast(q):
            y, sums = self._attend(q, new, None if past is None else past.sums)
        return y.to(q.dtype), PrefixSums(sums)

    def _attend(self, q: Tensor, new: KVCache, before: Tensor | None) -> tuple[Tensor, Tensor]:
        """Values [B, H, T, K] and the sums [B, G, m, K + 1] over all keys; R = H/G query heads share a key head."""
        heads, groups, width = q.size(1), new.k.size(1), q.size(-1)
        dtype = torch.promote_types(q.dtype, torch.float32)
        scale = math.sqrt(self.position.scale(width))
        queries = torch.unflatten(q.to(dtype) * scale, 1, (groups, heads // groups))  # [B, G, R, T, K]
        phi_q = self._log_features(queries)
        phi_q = (phi_q - phi_q.amax(-1, keepdim=True).detach()).exp()  # [B, G, R, T, m]
        phi_k = self._log_features(new.k.to(dtype) * scale).clamp(max=MAX_EXPONENT).exp()  # [B, G, T, m]
        if new.real is not None:
            phi_k = phi_k * new.real[:, None, :, None]
        v = torch.cat([new.v.to(dtype), new.v.new_ones(*new.v.shape[:-1], 1, dtype=dtype)], dim=-1)  # [B, G, T, K + 1]
        if self.causal:
            summed, sums = causal_linear_attention(phi_q, phi_k, v, before)  # [B, G, R, T, K + 1]
        else:
            sums = phi_k.mT @ v  # [B, G, m, K + 1]
            summed = phi_q @ sums.unsqueeze(2)
        y = summed[..., :-1] / summed[..., -1:].clamp(min=torch.finfo(dtype).tiny)
        return y.flatten(1, 2), sums

    def _log_features(self, x: Tensor) -> Tensor:
        """w · x - |x|^2 / 2 for x [..., K] -> [..., m]."""
        return x @ self.projection_matrix.to(x.dtype).T - x.square().sum(-1, keepdim=True) / 2


def causal_linear_attention(phi_q: Tensor, phi_k: Tensor, v: Tensor, before: Tensor | None) -> tuple[Tensor, Tensor]:
    """For each t the sum over s <= t of (phi_q_t · phi_k_s) v_s: the paper's prefix sums, in chunks.

    Args:
        phi_q: [B, G, R, T, m].
        phi_k: [B, G, T, m].
        v: [B, G, T, K].
        before: [B, G, m, K], sums over the keys of earlier calls, or None.

    Returns:
        [B, G, R, T, K], and the sums over all keys [B, G, m, K].
    """
    # One prefix sum [m, K] per token would need T·m·K numbers. Between chunks the sums are exact prefixes; within a
    # chunk of C tokens the product is computed as masked attention, which needs C x C scores only.
    length = v.size(2)
    chunk = max(1, min(CHUNK_SIZE, length))
    padding = -length % chunk
    count = (length + padding) // chunk
    phi_q, phi_k, v = (F.pad(x, (0, 0, 0, padding)) for x in (phi_q, phi_k, v))  # zero features add nothing
    q = torch.unflatten(phi_q, 3, (count, chunk))  # [B, G, R, N, C, m]
    k, values = torch.unflatten(phi_k, 2, (count, chunk)), torch.unflatten(v, 2, (count, chunk))  # [B, G, N, C, .]
    chunk_sums = k.mT @ values  # [B, G, N, m, K]
    first = torch.zeros_like(chunk_sums.sum(2)) if before is None else before  # [B, G, m, K]
    # sums[n]: everything before chunk n; sums[N]: everything, the state for the next call.
    sums = torch.cat([first.unsqueeze(2), chunk_sums], dim=2).cumsum(2)  # [B, G, N + 1, m, K]
    within = (q @ k.unsqueeze(2).mT).tril()  # [B, G, R, N, C, C], s <= t of the same chunk
    y = within @ values.unsqueeze(2) + q @ sums[:, :, None, :-1]  # [B, G, R, N, C, K]
    return y.flatten(3, 4)[:, :, :, :length], sums[:, :, -1]
