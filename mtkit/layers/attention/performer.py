"""Attention through random features of the softmax kernel."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from mtkit.layers.attention.kernel import SelfKernel
from mtkit.layers.attention.multi_head import SelfAttention, SelfAttentionParts
from mtkit.layers.cache.kv_cache import KeyValues
from mtkit.layers.cache.state import Rows
from mtkit.layers.positions.base import Position
from mtkit.layers.precision import exactly
from mtkit.layers.projections import Width

CHUNK = 64  # tokens that a causal product treats at once


LARGEST_EXPONENT = 60.0  # exp of it, summed over a million tokens and squared, is still a float32


def orthogonal_features(count: int, width: int) -> Tensor:
    """Rows [count, width] like N(0, I), orthogonal within each block of `width` of them.

    Choromanski et al. 2021, sec. 2.4 and app. B.2: directions from a QR decomposition, lengths of Gaussian vectors.
    The signs of R are moved into Q, without which Q is not uniform (Mezzadri 2007, sec. 5) and the error does not
    vanish as features grow. https://arxiv.org/abs/math-ph/0609050
    """
    q, r = torch.linalg.qr(torch.randn(-(-count // width), width, width))  # [., K, K]
    blocks: Tensor = q * r.diagonal(dim1=-2, dim2=-1).sign().unsqueeze(-2)
    lengths: Tensor = torch.randn(count, width).norm(dim=1, keepdim=True)
    return blocks.flatten(0, 1)[:count] * lengths


@dataclass(frozen=True)
class FeatureSums(Rows):
    """Everything that a step needs of the past: sums over keys of feature times value, and of the features alone."""

    sums: Tensor  # [rows, G, m, K + 1] float32; the last column belongs to a value of one


class PerformerAttention(SelfKernel):
    """FAVOR+: softmax(QK^T) V ~ phi(Q) (phi(K)^T V), normalised, in time and memory linear in the length.

    Choromanski et al. 2021, eq. 5 to 7 and sec. 2.3. https://arxiv.org/abs/2009.14794
    phi(x)_i = exp(w_i · x - |x|^2 / 2) / sqrt(m) with orthogonal w_i. The causal form sums over chunks; a decoder
    remembers the sums alone, whose size does not depend on the length. Tokens stand in order of their positions.
    Computed in float32. The features of a query are divided by their largest, which cancels; those of keys are as they
    are, so that no token changes those before it. There are no weights that dropout could act on. The features are
    drawn once and saved with the weights.
    """

    features: Tensor  # [m, K]

    def __init__(self, *, position: Position, head_dim: int, num_features: int, causal: bool) -> None:
        super().__init__()
        self.position = position
        self.causal = causal
        self.register_buffer("features", orthogonal_features(num_features, head_dim))

    def attend(self, q: Tensor, new: KeyValues, past: Rows | None) -> tuple[Tensor, Rows]:
        """See SelfKernel; only sums are remembered.

        Raises:
            ValueError: another kind of kernel made the past.
        """
        if past is not None and not (isinstance(past, FeatureSums) and self.causal):
            raise ValueError(f"a state of another kind of attention: {type(past).__name__}")
        before = past.sums if isinstance(past, FeatureSums) else None
        with exactly(q):
            y, sums = self._attend(q, new, before)
        return y.to(q.dtype), FeatureSums(sums)

    def _attend(self, q: Tensor, new: KeyValues, before: Tensor | None) -> tuple[Tensor, Tensor]:
        heads, groups, width = q.size(1), new.k.size(1), q.size(-1)
        exact = torch.promote_types(q.dtype, torch.float32)
        scale = math.sqrt(self.position.scale(width))
        queries = torch.unflatten(q.to(exact) * scale, 1, (groups, heads // groups))  # [B, G, R, T, K]
        phi_q = self._exponents(queries)
        phi_q = (phi_q - phi_q.amax(-1, keepdim=True).detach()).exp()  # [B, G, R, T, m]
        phi_k = self._exponents(new.k.to(exact) * scale).clamp(max=LARGEST_EXPONENT).exp()  # [B, G, T, m]
        if new.real is not None:
            phi_k = phi_k * new.real[:, None, :, None]
        v = torch.cat([new.v.to(exact), new.v.new_ones(*new.v.shape[:-1], 1, dtype=exact)], dim=-1)  # [B, G, T, K + 1]
        if self.causal:
            summed, sums = causal_product(phi_q, phi_k, v, before)  # [B, G, R, T, K + 1]
        else:
            sums = phi_k.mT @ v  # [B, G, m, K + 1]
            summed = phi_q @ sums.unsqueeze(2)
        y = summed[..., :-1] / summed[..., -1:].clamp(min=torch.finfo(exact).tiny)
        return y.flatten(1, 2), sums

    def _exponents(self, x: Tensor) -> Tensor:
        """w · x - |x|^2 / 2 for x [..., K] -> [..., m]."""
        return x @ self.features.to(x.dtype).T - x.square().sum(-1, keepdim=True) / 2


def causal_product(phi_q: Tensor, phi_k: Tensor, v: Tensor, before: Tensor | None) -> tuple[Tensor, Tensor]:
    """For each t the sum over s <= t of (phi_q_t · phi_k_s) v_s, in chunks; the paper's prefix sums.

    Args:
        phi_q: [B, G, R, T, m].
        phi_k: [B, G, T, m].
        v: [B, G, T, K].
        before: [B, G, m, K], the sums of earlier calls, or None.

    Returns:
        [B, G, R, T, K], and the sums over all keys [B, G, m, K].
    """
    length = v.size(2)
    chunk = max(1, min(CHUNK, length))
    rest = -length % chunk
    count = (length + rest) // chunk
    phi_q, phi_k, v = (F.pad(x, (0, 0, 0, rest)) for x in (phi_q, phi_k, v))
    q = torch.unflatten(phi_q, 3, (count, chunk))  # [B, G, R, N, C, m]
    k, values = torch.unflatten(phi_k, 2, (count, chunk)), torch.unflatten(v, 2, (count, chunk))  # [B, G, N, C, .]
    each = k.mT @ values  # [B, G, N, m, K]
    first = torch.zeros_like(each.sum(2)) if before is None else before  # [B, G, m, K]
    sums = torch.cat([first.unsqueeze(2), each], dim=2).cumsum(2)  # [B, G, N + 1, m, K]
    within = (q @ k.unsqueeze(2).mT).tril()  # [B, G, R, N, C, C]
    y = within @ values.unsqueeze(2) + q @ sums[:, :, None, :-1]  # [B, G, R, N, C, K]
    return y.flatten(3, 4)[:, :, :, :length], sums[:, :, -1]


@dataclass(frozen=True, kw_only=True)
class PerformerConfig:
    """Random features of the softmax kernel (see PerformerAttention)."""

    kind: Literal["performer"] = "performer"
    num_features: Width = 256  # m; about K·log K is needed, the error falls as 1/sqrt(m)

    def build(self, parts: SelfAttentionParts) -> SelfAttention:
        """The layer."""
        kernel = PerformerAttention(
            position=parts.position,
            head_dim=parts.heads.head_dim,
            num_features=self.num_features,
            causal=parts.causal,
        )
        return parts.around(kernel)
