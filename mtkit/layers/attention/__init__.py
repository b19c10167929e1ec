"""Attention: kinds of self-attention, their kernels, and cross-attention.

config          configurations of self-attention, and the union of kinds that a recipe can name
capabilities    base class of their configurations
kernel          interfaces of kernels and sublayers
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

Template of a new kind: tests/toy/new_kinds/uniform.py, and its configuration in tests/toy/new_kinds/configs.py.
"""
