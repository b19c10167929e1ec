"""Position encodings for comparison: relative ones, which change scores, and naive ones."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from mtkit.errors import DataError
from mtkit.layers.config import SinusoidalConfig
from mtkit.layers.positions import Position, Sinusoidal, relative_distance
from mtkit.layers.projections import embedding, linear
from mtkit.layers.sizes import Heads, split_heads
from mtkit.layers.variants.config import (
    ALiBiConfig,
    DeBERTaConfig,
    ShawConfig,
    T5BiasConfig,
    TransformerXLConfig,
    TUPEConfig,
)


def gather_by_distance(scores: Tensor, index: Tensor) -> Tensor:
    """Expand scores per distance class to scores per key.

    Args:
        scores: [B, H, T, N], one for each of N distance classes.
        index: [B, T, S], the distance class of each key.

    Returns:
        [B, H, T, S].
    """
    return scores.gather(-1, index.unsqueeze(1).expand(-1, scores.size(1), -1, -1))


def alibi_slopes(num_heads: int) -> list[float]:
    """Slopes of H heads: a geometric sequence from 2^(-8/H) to 2^-8. The paper, sec. 3.

    If H is not a power of two: the sequence for the next lower power, then every other slope for the next higher
    power, as in the authors' code.
    """
    below: int = 2 ** math.floor(math.log2(num_heads))
    first = [2 ** (-8 * i / below) for i in range(1, below + 1)]
    between = [2 ** (-4 * i / below) for i in range(1, 2 * below, 2)]
    return first + between[: num_heads - below]


class ALiBi(Position):
    """score - slope_h · |i - j|, with a fixed slope per head.

    Press, Smith & Lewis 2022, sec. 3. https://arxiv.org/abs/2108.12409
    With a causal mask this is the paper's form; in an encoder it is the symmetric variant.
    """

    slope: Tensor  # [H]

    def __init__(self, config: ALiBiConfig, d_model: int, heads: Heads, *, causal: bool) -> None:
        super().__init__(config, d_model, heads, causal=causal)
        self.register_buffer("slope", torch.tensor(alibi_slopes(heads.num_heads)), persistent=False)

    def bias(self, q: Tensor, k: Tensor, q_pos: Tensor, k_pos: Tensor) -> Tensor:
        """[B, H, T, S]."""
        dist = relative_distance(q_pos, k_pos).abs().unsqueeze(1)  # [B, 1, T, S]
        return -self.slope[:, None, None].to(q.dtype) * dist


class Shaw(Position):
    """Learned vectors per clipped distance: one is added to the key, another to the value.

    Shaw, Uszkoreit & Vaswani 2018, eq. 3 and 4, computed as in sec. 3.3. https://arxiv.org/abs/1803.02155
    The heads share the vectors.
    """

    def __init__(self, config: ShawConfig, d_model: int, heads: Heads, *, causal: bool) -> None:
        super().__init__(config, d_model, heads, causal=causal)
        self.max_distance = config.max_distance
        self.key = embedding(2 * self.max_distance + 1, heads.head_dim)  # a^K
        self.value = embedding(2 * self.max_distance + 1, heads.value_dim)  # a^V

    def _index(self, q_pos: Tensor, k_pos: Tensor) -> Tensor:
        dist = -relative_distance(q_pos, k_pos)  # [B, T, S], j - i as in the paper
        return dist.clamp(-self.max_distance, self.max_distance) + self.max_distance

    def bias(self, q: Tensor, k: Tensor, q_pos: Tensor, k_pos: Tensor) -> Tensor:
        """q_i · a^K_(j-i) / sqrt(K), [B, H, T, S]."""
        scores = (q * self.scale(q.size(-1))) @ self.key.weight.to(q.dtype).T  # [B, H, T, N]
        return gather_by_distance(scores, self._index(q_pos, k_pos))

    def value_bias(self, weights: Tensor, q_pos: Tensor, k_pos: Tensor) -> Tensor:
        """sum_j weight_ij a^V_(j-i), [B, H, T, K]."""
        index = self._index(q_pos, k_pos).unsqueeze(1).expand_as(weights)  # [B, H, T, S]
        by_distance = weights.new_zeros(*weights.shape[:-1], self.value.num_embeddings)  # [B, H, T, N]
        by_distance = by_distance.scatter_add(-1, index, weights)
        return by_distance @ self.value.weight.to(weights.dtype)


def relative_position_bucket(distance: Tensor, num_buckets: int, *, max_distance: int, causal: bool) -> Tensor:
    """Map distances to buckets, 0 <= bucket < num_buckets.

    The first half of the buckets of a direction holds one distance each. The second half is logarithmic up to
    `max_distance`, and its last bucket holds all larger distances. Raffel et al. 2020, sec. 2.1, and their code.

    Args:
        distance: any shape, query position minus key position.
        num_buckets: for both directions together.
        max_distance: in tokens.
        causal: all buckets are for preceding keys; otherwise the second half of them is for following keys.
    """
    if causal:
        offset, dist = torch.zeros_like(distance), distance.clamp(min=0)
    else:
        num_buckets //= 2
        offset, dist = (distance < 0).long() * num_buckets, distance.abs()
    exact = num_buckets // 2
    log_ratio = torch.log(dist.clamp(min=1).float() / exact) / math.log(max_distance / exact)
    log_bucket = exact + (log_ratio * (num_buckets - exact)).long()
    return offset + torch.where(dist < exact, dist, log_bucket.clamp(max=num_buckets - 1))


class T5Bias(Position):
    """score + b_h(bucket(i - j)); the products of queries and keys are scaled by 1/sqrt(K) only if `scaled`.

    Raffel et al. 2020, sec. 2.1. https://arxiv.org/abs/1910.10683
    """

    def __init__(self, config: T5BiasConfig, d_model: int, heads: Heads, *, causal: bool) -> None:
        super().__init__(config, d_model, heads, causal=causal)
        self.table = embedding(config.num_buckets, heads.num_heads)
        nn.init.normal_(self.table.weight, std=0.1)  # near 0: no initial preference for a distance
        self.max_distance = config.max_distance
        self.causal = causal
        self.scaled = config.scaled

    def scale(self, head_dim: int) -> float:
        """1, or 1/sqrt(K) if `scaled`."""
        return super().scale(head_dim) if self.scaled else 1.0

    def query_init_gain(self, head_dim: int) -> float:
        """1/sqrt(K) if scores are not scaled: the initial weights carry the factor, as in T5."""
        return 1.0 if self.scaled else 1.0 / math.sqrt(head_dim)

    def bias(self, q: Tensor, k: Tensor, q_pos: Tensor, k_pos: Tensor) -> Tensor:
        """[B, H, T, S]."""
        distance = relative_distance(q_pos, k_pos)  # [B, T, S]
        buckets = relative_position_bucket(
            distance, self.table.num_embeddings, max_distance=self.max_distance, causal=self.causal
        )
        bias: Tensor = self.table(buckets)  # [B, T, S, H]
        return bias.permute(0, 3, 1, 2).to(q.dtype)


class TransformerXLPosition(Position):
    """((q_i + u) · k_j + (q_i + v) · W_R R_(i-j)) / sqrt(K) with sinusoids R and learned biases u and v.

    Dai et al. 2019, sec. 3.3, terms (a) to (d), computed as in appendix B: one product with W_R R for each distance
    that occurs. https://arxiv.org/abs/1901.02860 . In an encoder the distance is signed. With global tokens
    (Longformer, strided attention) every block of queries has all distances, and the cost is that of full attention.
    """

    def __init__(self, config: TransformerXLConfig, d_model: int, heads: Heads, *, causal: bool) -> None:
        super().__init__(config, d_model, heads, causal=causal)
        self.encoding = Sinusoidal(SinusoidalConfig(), d_model, heads, causal=causal)
        self.relative = linear(d_model, heads.num_heads * heads.head_dim, bias=False)  # W_{k,R}
        self.content = embedding(heads.num_heads, heads.head_dim)  # u
        self.position = embedding(heads.num_heads, heads.head_dim)  # v
        nn.init.zeros_(self.content.weight)
        nn.init.zeros_(self.position.weight)

    def bias(self, q: Tensor, k: Tensor, q_pos: Tensor, k_pos: Tensor) -> Tensor | None:
        """[B, H, T, S], or None without keys or queries."""
        dist = relative_distance(q_pos, k_pos)  # [B, T, S]
        if not dist.numel():
            return None
        heads, scale = self.content.num_embeddings, self.scale(q.size(-1))
        lowest, highest = (int(end) for end in dist.aminmax())
        distances = torch.arange(lowest, highest + 1, device=q.device)  # [N]
        encoded = self.encoding.encoding(distances).to(self.relative.weight.dtype)  # [N, D]
        relative = split_heads(self.relative(encoded).unsqueeze(0), heads)  # [1, H, N, K]
        u, v = self.content.weight.to(q.dtype).unsqueeze(1), self.position.weight.to(q.dtype).unsqueeze(1)  # [H, 1, K]
        by_distance = (q + v) * scale @ relative.to(q.dtype).mT  # [B, H, T, N]
        keys = k.repeat_interleave(heads // k.size(1), dim=1)  # [B, H, S, K]
        by_content = u * scale @ keys.mT  # [B, H, 1, S]
        return gather_by_distance(by_distance, dist - lowest) + by_content


class DeBERTaPosition(Position):
    """(q_i · k_j + q_i · W_k P_d + k_j · W_q P_d) / sqrt(3K) with d = i - j + c clipped to [0, 2c).

    He et al. 2021, eq. 2 to 4: content-to-content, content-to-position, position-to-content.
    https://arxiv.org/abs/2006.03654 . The layers share the table P and have separate W_k and W_q. As in the authors'
    code, and unlike the paper, the third term uses the same sign of the distance as the second (the paper: j - i), and
    W_q has a bias.
    """

    def __init__(self, config: DeBERTaConfig, table: nn.Embedding, heads: Heads) -> None:
        super().__init__(config, table.embedding_dim, heads)
        self.table = table  # P, [2c, D]
        self.key = linear(table.embedding_dim, heads.num_heads * heads.head_dim, bias=False)
        self.query = linear(table.embedding_dim, heads.num_heads * heads.head_dim)
        self.num_heads = heads.num_heads

    def scale(self, head_dim: int) -> float:
        """1/sqrt(3K), for three terms."""
        return super().scale(head_dim) / math.sqrt(3)

    def bias(self, q: Tensor, k: Tensor, q_pos: Tensor, k_pos: Tensor) -> Tensor:
        """[B, H, T, S]."""
        span, scale = self.table.num_embeddings // 2, self.scale(q.size(-1))
        index = (relative_distance(q_pos, k_pos) + span).clamp(0, 2 * span - 1)  # [B, T, S]
        keys = split_heads(self.key(self.table.weight).unsqueeze(0), self.num_heads)  # [1, H, 2c, K]
        queries = split_heads(self.query(self.table.weight).unsqueeze(0), self.num_heads)  # [1, H, 2c, K]
        to_position = gather_by_distance(q * scale @ keys.to(q.dtype).mT, index)  # [B, H, T, S]
        content = k.repeat_interleave(self.num_heads // k.size(1), dim=1) * scale  # [B, H, S, K]
        from_position = gather_by_distance(content @ queries.to(q.dtype).mT, index.mT)  # [B, H, S, T]
        return to_position + from_position.mT


class TUPE(Position):
    """(q_i · k_j + p_i U_Q · p_j U_K) / sqrt(2K) + b_(j-i) with learned position vectors p, after a layer norm.

    Ke, He & Liu 2021, eq. 7 (TUPE-A), and eq. 8 with the term b (TUPE-R, buckets as T5). https://arxiv.org/abs/2006.15595
    All layers share p, U_Q, U_K and b. The untied [CLS] of sec. 3.2 has no counterpart in translation. Scores are
    computed for the range of positions that occurs, in every layer.
    """

    def __init__(self, config: TUPEConfig, d_model: int, heads: Heads, *, causal: bool) -> None:
        super().__init__(config, d_model, heads, causal=causal)
        buckets = T5BiasConfig(num_buckets=config.num_buckets, max_distance=config.max_distance)
        relative = T5Bias(buckets, d_model, heads, causal=causal) if config.relative else None
        self.table = embedding(config.max_length, d_model)
        self.norm = nn.LayerNorm(d_model)
        self.query = linear(d_model, heads.num_heads * heads.head_dim, bias=False)  # U_Q
        self.key = linear(d_model, heads.num_heads * heads.head_dim, bias=False)  # U_K
        self.relative = relative
        self.num_heads = heads.num_heads

    def scale(self, head_dim: int) -> float:
        """1/sqrt(2K), for two terms."""
        return super().scale(head_dim) / math.sqrt(2)

    def bias(self, q: Tensor, k: Tensor, q_pos: Tensor, k_pos: Tensor) -> Tensor | None:
        """[B, H, T, S], or None without keys or queries.

        Raises:
            DataError: a position is beyond the table.
        """
        if not q_pos.numel() or not k_pos.numel():
            return None
        queries, first_query = self._project(self.query, q_pos)  # [H, N, K]
        keys, first_key = self._project(self.key, k_pos)  # [H, M, K]
        by_position = queries @ keys.mT * self.scale(q.size(-1))  # [H, N, M]
        index = (q_pos - first_query).unsqueeze(-1), (k_pos - first_key).unsqueeze(-2)  # [B, T, 1], [B, 1, S]
        scores = by_position[:, index[0], index[1]].transpose(0, 1).to(q.dtype)  # [B, H, T, S]
        return scores if self.relative is None else scores + self.relative.bias(q, k, q_pos, k_pos)

    def _project(self, projection: nn.Module, pos: Tensor) -> tuple[Tensor, int]:
        """Projected vectors [H, N, K] of the positions from the lowest to the highest of `pos`, and the lowest."""
        lowest, highest = (int(end) for end in pos.aminmax())
        if highest >= self.table.num_embeddings:
            raise DataError(
                f"a sentence of {highest + 1} tokens is longer than the {self.table.num_embeddings} learned positions; "
                "raise max_length of the tupe positions"
            )
        vectors = self.norm(self.table.weight[lowest : highest + 1])  # [N, D]
        return split_heads(projection(vectors).unsqueeze(0), self.num_heads).squeeze(0), lowest


MAX_BITS = 62  # of an int64


class Index(Position):
    """The position itself is added to every number of the embedding.

    It fails because the sum grows with the position, until nothing of the token is left after the first norm.
    """

    def embed(self, x: Tensor, pos: Tensor, real: Tensor | None = None) -> Tensor:
        """Add pos [B, T] to x [B, T, D]."""
        return x + pos.unsqueeze(-1).to(x.dtype)


class RelativeIndex(Position):
    """Position divided by the number of tokens of the sentence, added to every number of the embedding.

    It is bounded by 1, but the same distance has another size in every sentence: neighbours differ by 1/length.
    """

    def embed(self, x: Tensor, pos: Tensor, real: Tensor | None = None) -> Tensor:
        """Add pos [B, T] over the sentence's length to x [B, T, D]; real [B, T] is False at padding."""
        counted = pos if real is None else pos.masked_fill(~real, -1)
        length = (counted.amax(1, keepdim=True) + 1).clamp(min=1) if pos.size(1) else 1  # [B, 1]
        return x + (pos / length).unsqueeze(-1).to(x.dtype)


class Binary(Position):
    """Bit i of the position is added to number i of the embedding, the lowest bit first; further numbers get 0.

    Every position has a code of its own, but neighbours such as 7 and 8 may differ in all bits. Sinusoids are its
    continuous form.
    """

    def embed(self, x: Tensor, pos: Tensor, real: Tensor | None = None) -> Tensor:
        """Add the code of pos [B, T] to x [B, T, D]."""
        bits = torch.arange(x.size(-1), device=pos.device)  # [D]
        code = (pos.unsqueeze(-1) >> bits.clamp(max=MAX_BITS)) & 1  # [B, T, D]
        return x + (code * (bits < MAX_BITS)).to(x.dtype)
