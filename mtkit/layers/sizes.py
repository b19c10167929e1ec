"""The sizes that a recipe may ask for: bounded far above what is trained, so that a digit too many is told at once."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

Width = Annotated[int, Field(gt=0, le=100_000)]  # numbers of a vector, or vectors side by side; GPT-3 has 12,288
Layers = Annotated[int, Field(gt=0, le=1_000)]  # as many as DeepNorm's deepest, https://arxiv.org/abs/2203.00555
