"""Smaller and faster models made from a trained one.

heads         importance of attention heads, and their removal
structure     removal of feed-forward units, of layers, and of the smallest weights, which become zeros
measure       size, speed and BLEU of a model
compress      the command: load, compress, measure, compare with the bound on the loss of BLEU, write

Distillation is an objective of training (training/objectives/distillation.py); number formats of weights on disk are in
model_folder/quantised_weights.py.
"""
