"""Bag of words: the decoder reads the mean of the source embeddings and the preceding token.

config  keys of a recipe
model   the model
"""
