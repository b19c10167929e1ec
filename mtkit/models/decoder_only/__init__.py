"""Decoder-only model: one Transformer stack reads the source and continues with the target.

config  keys of a recipe, and the model that they describe
model   the stack, its attention over a prefix that the hypotheses of a sentence share, `start` and `step`
"""
