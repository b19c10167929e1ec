"""Position encodings: where order enters a Transformer. Sinusoidal, learned and rotary ones."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mtkit.errors import DataError
from mtkit.layers.projections import embedding
from mtkit.layers.sizes import Heads

if TYPE_CHECKING:
    from mtkit.layers.config import LearnedConfig, PositionConfigBase, RoPEConfig, SinusoidalConfig


class Position(nn.Module):
    """Position encoding. This base class is the identity: a subclass overrides the hooks that it needs.

    Positions are integers [B, T] and passed explicitly. Prefixes, cached steps and left padding therefore need no
    special case. `embed` is called once per stack, the other hooks in every attention layer. A kernel that computes in
    blocks folds the blocks into the batch axis, so that B is then the number of all blocks.

    Args:
        config: of a subclass.
        d_model: width of the embeddings.
        heads: sizes of the heads of the layers; None: products of queries and keys are scaled.
        causal: positions of a decoder.
    """

    def __init__(
        self,
        config: PositionConfigBase | None = None,
        d_model: int = 0,
        heads: Heads | None = None,
        *,
        causal: bool = False,
    ) -> None:
        super().__init__()
        self.is_scaled = heads is None or heads.scaled

    def scale(self, head_dim: int) -> float:
        """Factor of the products of queries and keys, applied before the bias is added."""
        return 1.0 / math.sqrt(head_dim) if self.is_scaled else 1.0

    def query_init_gain(self, head_dim: int) -> float:
        """Factor of the query projection's initial weights, for encodings that do not scale the products."""
        return 1.0

    def embed(self, x: Tensor, pos: Tensor, real: Tensor | None = None) -> Tensor:
        """Add positions to embeddings: x [B, T, D], pos [B, T]; real [B, T] is False at padding."""
        return x

    def rotate(self, x: Tensor, pos: Tensor) -> Tensor:
        """Rotate queries or keys: x [B, H, T, K], pos [B, T]."""
        return x

    def bias(self, q: Tensor, k: Tensor, q_pos: Tensor, k_pos: Tensor) -> Tensor | None:
        """Score bias, broadcastable to [B, H, T, S], added after scaling; q [B, H, T, K], k [B, G, S, K]."""
        return None

    def value_bias(self, weights: Tensor, q_pos: Tensor, k_pos: Tensor) -> Tensor | None:
        """Term [B, H, T, K] added to the weighted sum of values; weights [B, H, T, S]."""
        return None


@dataclass(frozen=True)
class StackPositions:
    """Position encoding of one stack: the module applied to its embeddings, and one module per layer."""

    embedding: Position
    layers: list[Position]


def relative_distance(q_pos: Tensor, k_pos: Tensor) -> Tensor:
    """Query position minus key position [B, T, S], positive for preceding keys; q_pos [B, T], k_pos [B, S]."""
    return q_pos.unsqueeze(-1) - k_pos.unsqueeze(-2)


class Sinusoidal(Position):
    """PE(p, 2i) = sin(p / 10000^(2i/D)), PE(p, 2i+1) = cos of the same, added to the embeddings.

    Vaswani et al. 2017, sec. 3.5. https://arxiv.org/abs/1706.03762
    Computed in float32 for the given positions; the length is unlimited. Variants of other programs: all sines before
    all cosines, positions that begin with another number than 0, and exponents that reach 1 (see SinusoidalConfig).
    """

    frequency: Tensor  # [ceil(D/2)]

    def __init__(self, config: SinusoidalConfig, d_model: int, heads: Heads, *, causal: bool) -> None:
        super().__init__(config, d_model, heads, causal=causal)
        exponent = torch.arange(0, d_model, 2, dtype=torch.float32) / config.divisor(d_model)  # [D/2]
        self.register_buffer("frequency", torch.exp(-math.log(config.base) * exponent), persistent=False)
        self.d_model, self.offset = d_model, config.offset
        self.concatenated = config.layout == "concatenated"

    def encoding(self, pos: Tensor) -> Tensor:
        """Encode positions [...] -> [..., D], float32."""
        angle = (pos + self.offset).unsqueeze(-1).float() * self.frequency.float()  # [..., D/2]
        if self.concatenated:
            return torch.cat([angle.sin(), angle.cos()], dim=-1)[..., : self.d_model]
        return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2)[..., : self.d_model]

    def embed(self, x: Tensor, pos: Tensor, real: Tensor | None = None) -> Tensor:
        """Add the encoding of pos [B, T] to x [B, T, D]."""
        return x + self.encoding(pos).to(x.dtype)


class Learned(Position):
    """Learned vectors for the first `max_length` positions, added to the embeddings.

    Gehring et al. 2017, sec. 3.1; Vaswani et al. 2017, table 3 row E. A position beyond the table is an error.
    With `interpolation_factor` s, position p reads the table at row p/s, interpolated linearly between two rows, so
    that the table covers s times as many positions (Chen et al. 2023, eq. 4, applied to a table). The vector depends on
    p alone; cached steps therefore equal the whole sequence.

    Attributes:
        num_positions: positions that the table covers when it is interpolated.
    """

    def __init__(self, config: LearnedConfig, d_model: int, heads: Heads, *, causal: bool) -> None:
        super().__init__(config, d_model, heads, causal=causal)
        self.table = embedding(config.max_length, d_model)
        self.interpolation_factor = config.interpolation_factor
        self.num_positions = config.length_limit

    def embed(self, x: Tensor, pos: Tensor, real: Tensor | None = None) -> Tensor:
        """Add the vectors of pos [B, T] to x [B, T, D].

        Raises:
            DataError: a position is beyond the table.
        """
        if pos.numel() and int(pos.max()) >= self.num_positions:
            raise DataError(
                f"a sentence of {int(pos.max()) + 1} tokens is longer than the {self.num_positions} learned positions; "
                "raise max_length or interpolation_factor of the learned positions, or use sinusoidal ones"
            )
        if self.interpolation_factor == 1:
            return x + self.table(pos).to(x.dtype)  # type: ignore[no-any-return]
        row = pos / self.interpolation_factor  # [B, T]
        below = row.long()
        above = (below + 1).clamp(max=self.table.num_embeddings - 1)
        mixed = torch.lerp(self.table(below), self.table(above), (row - below).unsqueeze(-1).to(self.table.weight))
        return x + mixed.to(x.dtype)


MAX_CACHED = 1024  # positions whose rotations are cached on a CPU, where computing them took 1% of a translation


def rotate_interleaved(x: Tensor, rotation: Tensor) -> Tensor:
    """Rotate the pairs (x_2i, x_2i+1) of x [..., K] by unit complex numbers [..., K/2]: a complex product."""
    exact = x if x.dtype.itemsize >= torch.float32.itemsize else x.float()
    pairs = torch.view_as_complex(torch.unflatten(exact, -1, (-1, 2)))  # [..., K/2]
    return torch.view_as_real(pairs * rotation).flatten(-2).type_as(x)


def rotate_halves(x: Tensor, rotation: Tensor) -> Tensor:
    """Rotate the pairs (x_i, x_i+K/2) of x [..., K] by unit complex numbers [..., K/2]."""
    first, second = x.chunk(2, dim=-1)  # [..., K/2]
    cos, sin = rotation.real.to(x.dtype), rotation.imag.to(x.dtype)
    return torch.cat([first * cos - second * sin, first * sin + second * cos], dim=-1)


class RoPE(Position):
    """Pair i of a query or key at position p is rotated by p · base^(-2i/K); products depend on the distance alone.

    Su et al. 2021, eq. 34. https://arxiv.org/abs/2104.09864
    A pair is two adjacent dimensions as in the paper, or dimensions i and i+K/2 with `rotate_half`. Angles are float32
    for any type of x.
    """

    frequency: Tensor  # [K/2]

    def __init__(self, config: RoPEConfig, d_model: int, heads: Heads, *, causal: bool) -> None:
        super().__init__(config, d_model, heads, causal=causal)
        head_dim = heads.head_dim
        base, divisor = config.scaling.apply(config.base, head_dim)
        if head_dim % 2:
            raise ValueError(f"head_dim {head_dim} is odd; RoPE rotates pairs of dimensions")
        exponent = torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim  # [K/2]
        self.register_buffer("frequency", base**-exponent / divisor, persistent=False)
        self.cached_rotations = self.rotations(torch.arange(MAX_CACHED))  # [MAX_CACHED, K/2]; CPU only, so not a buffer
        self.rotate_pairs = rotate_halves if config.rotate_half else rotate_interleaved

    def rotations(self, pos: Tensor) -> Tensor:
        """Rotation of each pair at pos [...]: unit complex numbers e^(i·angle) [..., K/2]."""
        angle = pos.unsqueeze(-1).float() * self.frequency.float()
        return torch.polar(torch.ones_like(angle), angle)

    def rotate(self, x: Tensor, pos: Tensor) -> Tensor:
        """Rotate x [B, H, T, K] by its positions [B, T]."""
        if x.device.type == "cpu" and not torch.compiler.is_compiling():
            with suppress(IndexError):  # a position beyond the cache
                return self.rotate_pairs(x, F.embedding(pos, self.cached_rotations).unsqueeze(1))
        return self.rotate_pairs(x, self.rotations(pos).unsqueeze(1))
