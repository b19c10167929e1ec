"""Decoder-only model: one Transformer stack reads the source and continues with the target.

config            keys of a recipe, and the model that they describe
model             the stack, `start` and `step`
prefix_attention  self-attention over a prefix that the hypotheses of a sentence share, and what follows it
"""
