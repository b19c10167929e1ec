"""Reformer: attention among tokens whose queries fall into the same bucket of a locality-sensitive hash."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from mtkit.layers.attention import AttentionKernel, AttentionParts, SelfAttention
from mtkit.layers.cache import KVCache
from mtkit.layers.dropout import Dropout
from mtkit.layers.projections import linear
from mtkit.layers.sizes import split_heads

if TYPE_CHECKING:
    from mtkit.layers.variants.config import LSHConfig


MAX_COLUMNS = 256  # of a rotation; with chunks of 64 tokens, buckets grow beyond 16,384 tokens
SELF_PENALTY = -1e5  # added to the score of a token with itself, sec. 2; it sees itself if it sees no other token
NORM_EPSILON = 1e-6
HIDDEN = -1e9  # score of other buckets; below that of a token with itself


@dataclass(frozen=True)
class SortedRounds:
    """The tokens of each round of hashing in order of bucket and position, in N chunks of C.

    Every tensor is [B, H, R, N, C] or, of the keys that a chunk attends to, [B, H, R, N, 2C]: those of the chunk before
    and its own.

    Attributes:
        order: [B, H, R, N·C] index of the token at each place; places beyond the sequence repeat the last token.
        rank: [B, H, R, T] place of each token.
        size: C.
    """

    order: Tensor
    rank: Tensor
    size: int

    @classmethod
    def of(cls, bucket: Tensor, pos: Tensor, real: Tensor, size: int) -> SortedRounds:
        """Sort by bucket [B, H, R, T], then by pos [B, T]; padding comes last, so that it shifts no chunk."""
        span = int(pos.max()) + 1 if pos.numel() else 1
        key = torch.where(real[:, None, None], bucket * span + pos[:, None, None], torch.iinfo(torch.int64).max)
        order = key.argsort(dim=-1, stable=True)  # [B, H, R, T]
        beyond = order[..., -1:].expand(-1, -1, -1, -order.size(-1) % size)
        return cls(torch.cat([order, beyond], -1), order.argsort(-1), size)

    def chunks(self, x: Tensor) -> Tensor:
        """x [B, H, 1 or R, T, ...] -> [B, H, R, N, C, ...]."""
        index = self.order.view(*self.order.shape, *[1] * (x.dim() - 4))
        expanded = x.expand(-1, -1, self.order.size(2), *x.shape[3:])
        taken = expanded.gather(3, index.expand(*self.order.shape, *x.shape[4:]))
        return torch.unflatten(taken, 3, (-1, self.size))

    def context(self, chunks: Tensor) -> Tensor:
        """Chunks [B, H, R, N, C, ...] and the chunks before them, [B, H, R, N, 2C, ...]; the first has zeros before."""
        before = torch.cat([torch.zeros_like(chunks[:, :, :, :1]), chunks[:, :, :, :-1]], dim=3)
        return torch.cat([before, chunks], dim=4)

    def unsort(self, x: Tensor) -> Tensor:
        """Inverse of `chunks`: [B, H, R, N, C, ...] -> [B, H, R, T, ...]."""
        flat = x.flatten(3, 4)
        index = self.rank.view(*self.rank.shape, *[1] * (flat.dim() - 4))
        return flat.gather(3, index.expand(*self.rank.shape, *flat.shape[4:]))


class LSHKernel(AttentionKernel[KVCache]):
    """softmax over the keys that share a bucket with the query in some of R rounds, O(R · n · C).

    Kitaev et al. 2020, sec. 2, https://arxiv.org/abs/2001.04451 . A round sorts the tokens by bucket; a query sees the
    tokens of its bucket in its chunk of C and in the chunk before. The softmax runs over the union of all rounds: a
    pair that N rounds show has 1/N of its weight in each, and all rounds share one normaliser. A token sees itself only
    if it sees no other. A sentence of n tokens has 2 · ceil(n / C) buckets; with at most C tokens it is one bucket, and
    attention is complete. Rotations are drawn once and saved with the weights. Decoders would need chunks that do not
    depend on following tokens, so that this kind is for encoders.
    """

    rotations: Tensor  # [R, K, MAX_COLUMNS]

    def __init__(self, config: LSHConfig, parts: AttentionParts) -> None:
        super().__init__(config, parts)
        self.position = parts.position
        self.chunk_length = config.chunk_length
        self.dropout = Dropout(parts.dropout)
        self.register_buffer("rotations", torch.randn(config.num_hashes, parts.heads.head_dim, MAX_COLUMNS))

    def forward(self, q: Tensor, new: KVCache, past: KVCache | None) -> tuple[Tensor, KVCache]:
        """See AttentionKernel; `new` has one key for each query, of the same direction.

        Raises:
            ValueError: there is a past; chunks depend on the whole sequence.
        """
        if past is not None:
            raise ValueError("LSH attention cuts whole sequences into chunks; it cannot decode by steps")
        if not new.pos.numel():
            return q.new_zeros(*q.shape[:3], new.v.size(3)), new
        real = torch.ones_like(new.pos, dtype=torch.bool) if new.real is None else new.real  # [B, T]
        bucket = self.buckets(q, real)  # [B, H, R, T]
        rounds = SortedRounds.of(bucket, new.pos, real, self.chunk_length)
        queries = rounds.chunks(q.unsqueeze(2) * self.position.scale(q.size(-1)))  # [B, H, R, N, C, K]
        keys, values = (rounds.context(rounds.chunks(x.unsqueeze(2))) for x in (new.k, new.v))  # [B, H, R, N, 2C, K]
        # the penalties are beyond the range of 16 bits
        scores = (queries @ keys.mT).to(torch.promote_types(q.dtype, torch.float32))  # [B, H, R, N, C, 2C]
        scores = scores + self._bias(rounds, bucket, real, scores.dtype)
        normaliser = rounds.unsort(scores.logsumexp(-1)).logsumexp(2, keepdim=True)  # [B, H, 1, T], over all rounds
        weights = (scores - rounds.chunks(normaliser).unsqueeze(-1)).exp().to(values.dtype)
        y = rounds.unsort(self.dropout(weights) @ values).sum(2)  # [B, H, T, K]
        return y * real[:, None, :, None], new

    @torch.no_grad()
    def buckets(self, q: Tensor, real: Tensor) -> Tensor:
        """Buckets [B, H, R, T] of q [B, H, T, K]: the index of the largest of [qR; -qR] (Andoni et al. 2015).

        R has one column for each chunk of the sentence's tokens, which `real` [B, T] counts.
        """
        tokens = real.sum(1)  # [B]
        columns = (-(-tokens // self.chunk_length)).clamp(max=MAX_COLUMNS)  # [B]
        rotated = q.unsqueeze(2) @ self.rotations[:, :, : int(columns.max())].to(q.dtype)  # [B, H, R, T, M]
        number = torch.arange(rotated.size(-1), device=q.device)  # [M]
        rotated = rotated.masked_fill((number >= columns[:, None])[:, None, None, None], 0.0)  # [B, 1, 1, 1, M]
        bucket = torch.cat([rotated, -rotated], dim=-1).argmax(-1)  # [B, H, R, T]
        return torch.where((columns > 1)[:, None, None, None], bucket, 0)

    @torch.no_grad()
    def _bias(self, rounds: SortedRounds, bucket: Tensor, real: Tensor, dtype: torch.dtype) -> Tensor:
        """HIDDEN for other buckets, SELF_PENALTY for the token itself, -log N_ij for all else, [B, H, R, N, C, 2C]."""
        index = torch.arange(real.size(1), device=real.device) + 1  # [T]; 0 before the first chunk
        number = rounds.chunks(index.expand(*bucket.shape[:2], 1, -1))  # [B, H, R, N, C]
        k_number = rounds.context(number)  # [B, H, R, N, 2C]
        is_key = rounds.context(rounds.chunks(real[:, None, None].expand(-1, bucket.size(1), -1, -1)))
        # places that repeat the last token, at the end of the last chunk, are no keys
        place = torch.arange(rounds.order.size(-1), device=real.device).view(-1, rounds.size)  # [N, C]
        is_key = is_key & rounds.context((place < real.size(1)).expand_as(number))
        count = torch.zeros(*number.shape, 2 * rounds.size, dtype=torch.int8, device=real.device)
        shown = count.bool()
        for other in range(bucket.size(2)):
            # pairs that this round shows, in the chunks of all rounds: of one bucket, in one chunk or two neighbours
            q_bucket = rounds.chunks(bucket[:, :, other : other + 1])  # [B, H, R, N, C]
            q_chunk = rounds.chunks(rounds.rank[:, :, other : other + 1] // rounds.size)  # [B, H, R, N, C]
            distance = q_chunk.unsqueeze(-1) - rounds.context(q_chunk).unsqueeze(-2)  # [B, H, R, N, C, 2C]
            is_same = q_bucket.unsqueeze(-1) == rounds.context(q_bucket).unsqueeze(-2)
            seen = is_same & ((distance == 0) | (distance == 1))
            count += seen
            is_this_round = torch.arange(bucket.size(2), device=real.device).view(1, 1, -1, 1, 1, 1) == other
            shown = shown | (seen & is_this_round)
        bias = -count.clamp(min=1).to(dtype).log()  # [B, H, R, N, C, 2C]
        bias = bias.masked_fill(number.unsqueeze(-1) == k_number.unsqueeze(-2), SELF_PENALTY)
        return bias.masked_fill(~(shown & is_key.unsqueeze(-2)), HIDDEN)


class LSHAttention(SelfAttention):
    """Self-attention whose keys are the queries, scaled to the norm sqrt(K) (Kitaev et al. 2020, sec. 2, shared-QK)."""

    def __init__(self, config: LSHConfig, parts: AttentionParts) -> None:
        super().__init__(config, parts)
        heads = parts.heads
        self.query_key_value = linear(parts.d_model, heads.num_heads * heads.head_dim + heads.value_width)

    def project(self, x: Tensor, pos: Tensor, real: Tensor | None) -> tuple[Tensor, KVCache]:
        """See SelfAttention."""
        heads = self.heads
        projected, values = self.query_key_value(x), heads.value_width  # [B, T, H·K + H·V]
        q = self.query_norm(split_heads(projected[..., :-values], heads.num_heads))  # [B, H, T, K]
        v = split_heads(projected[..., -values:], heads.num_heads)
        q = self.position.rotate(q, pos)
        k = F.rms_norm(q, (heads.head_dim,), eps=NORM_EPSILON)
        return q, KVCache.of(k, v, pos, real)
