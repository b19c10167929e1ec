"""Sparse self-attention: a query attends to some of the keys, in blocks.

config            configurations of these kinds
sliding_window    attention within a window and to global tokens, chosen by a rule (kinds: window, strided)
longformer        a window and global tokens that attend to everything
binary_partition  near tokens, and spans of a binary tree that grow with the distance (BP-Transformer)
lsh               buckets of a locality-sensitive hash (Reformer)
"""
