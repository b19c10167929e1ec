"""Transformer: encoder-decoder model of Vaswani et al. 2017 and its variants.

config                   keys of a recipe, and the model that they describe
layer_config             keys of a layer, shared with the decoder-only model
attention_compatibility  which kinds of attention, positions, heads and head counts work together
model                    encoder, decoder, embeddings, `start` and `step`
layers                   encoder and decoder layers, in sequence or in parallel; their stacks, LayerDrop
sharing                  which layers of a stack share their weights
"""
