"""Norms and residual connections.

config       configurations, and the unions of kinds that a recipe can name
norm         layer norm and RMS norm
batch_norm   batch norm over real tokens
residual     Residual (the interface), pre-norm and post-norm; Sublayer, Depth
sandwich     a norm before and after each sublayer
deepnorm     DeepNorm, for very deep post-norm stacks
comparisons  norm after the sublayer; no residual connection
"""
