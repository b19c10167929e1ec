"""Layers: building blocks of models, from attention to recurrent cells.

Every line that creates or reshapes a tensor ends with its shape. The letters, batch first:

B  sentences in a batch          W  hypotheses per sentence (beam width)
S  source or key length          T  target or query length
D  model width (d_model)         F  feed-forward width (d_ff)
H  query heads                   G  key/value heads; H/G query heads share one
K  head width (head_dim)         V  vocabulary size
N  rows that a docstring defines: hypotheses, flattened tokens or blocks
M  entries selected from a longer axis, slots of a cache, or random features (m)
C  positions of a block
E  experts

`rows` are hypotheses: B·W rows, those of sentence b at b·W ... b·W + W - 1. A mask named `visible` is True where a key
may be attended to, and `real` is True for tokens that are not padding (`~padding_mask`). Positions are integers [B, T],
passed explicitly, because prefixes and cached steps do not start at 0. Log-probabilities are natural logarithms.
"""
