"""Sparse self-attention: a query attends to some of the keys, in blocks."""
