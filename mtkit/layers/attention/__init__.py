"""Attention: kinds of self-attention, their kernels, and cross-attention.

kernel          interfaces of kernels and sublayers, and the capabilities of a kind
masks           attention masks by position: causal, window
multi_head      self-attention around a kernel: projections, heads, query/key norms
softmax         scaled dot-product attention to all visible keys (kind: full)
cross           attention from decoder to encoder
head_gates      gates on heads, which training closes
sparse/         windows, global tokens, spans of a binary tree, hash buckets (kinds: window, strided, longformer,
                binary_partition, lsh)
linformer       learned projections of the keys
performer       random features of the softmax kernel
ssru            a recurrent replacement of decoder self-attention
average         an averaging replacement of decoder self-attention
gmlp            a gated matrix product along the sentence, which replaces encoder self-attention

`AttentionConfig` lists the kinds that a recipe can name.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from mtkit.layers.attention.average import AverageAttentionConfig
from mtkit.layers.attention.gmlp import GatedMLPConfig
from mtkit.layers.attention.linformer import LinformerConfig
from mtkit.layers.attention.performer import PerformerConfig
from mtkit.layers.attention.softmax import FullAttentionConfig
from mtkit.layers.attention.sparse.binary_partition import BinaryPartitionConfig
from mtkit.layers.attention.sparse.longformer import LongformerConfig
from mtkit.layers.attention.sparse.lsh import LSHConfig
from mtkit.layers.attention.sparse.sliding_window import StridedAttentionConfig, WindowAttentionConfig
from mtkit.layers.attention.ssru import SSRUConfig

AttentionConfig = Annotated[
    FullAttentionConfig
    | WindowAttentionConfig
    | StridedAttentionConfig
    | LongformerConfig
    | BinaryPartitionConfig
    | LSHConfig
    | LinformerConfig
    | PerformerConfig
    | SSRUConfig
    | AverageAttentionConfig
    | GatedMLPConfig,
    Field(discriminator="kind"),
]
