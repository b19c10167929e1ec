"""Descriptions of architectures (`mtkit describe`, `plot --positions`, `plot --gradients`), without training anything.

describe   architecture of a recipe or a model folder: its modules with their figures; equal layers are collapsed
cost       FLOPs, saved activations and decoder state per token, counted on the meta device
table      one description as a tree, two side by side
positions  position encodings as plots
gradients  gradient of the loss over distance
"""
