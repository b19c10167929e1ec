"""Types of keys that several kinds share: ranges and choices."""

from __future__ import annotations

from typing import Annotated, Literal

from mtkit.config import Limits

PositiveWidth = Annotated[int, Limits(gt=0, le=100_000)]  # of a vector; also numbers of heads. GPT-3 has 12,288
NumLayers = Annotated[int, Limits(gt=0, le=1_000)]  # the deepest DeepNorm model, https://arxiv.org/abs/2203.00555
QKNorm = Literal["none", "layer", "rms"]  # norm of queries and keys
Activation = Literal["relu", "gelu", "silu"]
RoutingKind = Literal["switch", "top2"]  # of tokens to experts
