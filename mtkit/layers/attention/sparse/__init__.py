"""Sparse self-attention: a query attends to some of the keys, in blocks.

config            configurations of these kinds
sliding_window    attention within a window (kinds: window, strided)
longformer        a window and global tokens
global_tokens     the rule that chooses global tokens
binary_partition  near tokens, and spans of a binary tree that grow with the distance (BP-Transformer)
lsh               buckets of a locality-sensitive hash (Reformer)
"""
