"""Rewrites of a trained model that make translation faster; no other part of mtkit knows them.

prepare                   the only entry point: a copy of a model with a compute type, on a device, rewritten or not
int8                      projections in 8-bit integers
pruned_argmax             exact argmax over the vocabulary with a cheap int8 bound (greedy search)
absorbed_cross_attention  cross-attention without keys and values of its own (greedy search)

Training and validation run the model as it is written in layers/ and models/. So does `mtkit translate --no-rewrite`.
"""
