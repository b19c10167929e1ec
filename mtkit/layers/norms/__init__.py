"""Norms and residual connections.

config    configurations, and the unions of kinds that a recipe can name
norm      layer norm, RMS norm and batch norm
residual  Residual (the interface) and its kinds, from pre-norm to DeepNorm; Sublayer, Depth
"""
