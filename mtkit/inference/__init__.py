"""Rewrites of a trained model that make translation faster; no other part of mtkit knows them.

prepare                   the only entry point: a copy of a model with a compute type, on a device, rewritten or not
native/                   encoder, decoder step and output in C, compiled with the package
bf16                      projections with bf16 weights
packed_output             output projection with weights packed for oneDNN
int8                      projections in 8-bit integers
pruned_argmax             exact argmax over the vocabulary with a cheap int8 bound (greedy search)
absorbed_cross_attention  cross-attention without keys and values of its own (greedy search)
fused_decoder             a step of a Transformer's decoder in few operations
known_layers              layers that rewrites know, and the comparison of a rewritten model with the one as written
fuse                      the models for which the fused decoder stands in
stacked_cache             keys and values of all layers in one buffer

Training and validation run the model as it is written in layers/ and models/. So does `mtkit translate --no-rewrite`.
"""
