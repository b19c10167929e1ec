"""Attention: kinds of self-attention, their kernels, and cross-attention.

config        configurations of self-attention, and the union of kinds that a recipe can name
capabilities  base class of their configurations
kernel        interfaces of kernels and sublayers
multi_head    self-attention around a kernel: projections, heads, query/key norms
softmax       masks by position, and scaled dot-product attention to all visible keys (kind: full)
cross         attention from decoder to encoder
head_gates    gates on heads, which training closes
sparse/       windows, global tokens, spans of a binary tree, hash buckets (kinds: window, strided, longformer,
                binary_partition, lsh)
linear        learned projections of the keys, random features of the softmax kernel (kinds: linformer, performer)
replacements  sublayers that replace self-attention (kinds: ssru, average, gmlp)

Template of a new kind: tests/toy/new_kinds/uniform.py, and its configuration in tests/toy/new_kinds/configs.py.
"""
