"""Descriptions of architectures (`mtkit describe`, `plot --positions`, `plot --gradients`), without training anything.

describe      architecture of a recipe or a model folder, and its description
cost          FLOPs, saved activations and decoder state per token
flop_counter  FLOPs of a model on the meta device, by module
module_tree   modules with their figures; equal layers are collapsed
table         one description as a tree, two side by side
positions     position encodings as plots
gradients     gradient of the loss over distance
"""
