"""Commands: inspection.

keys       keys of a recipe
describe   architecture of a model
plot       learning curves, attention, positions and gradients
attention  attention heads of a model
nearest    nearest words of word vectors
doctor     versions, hardware and problems
"""
