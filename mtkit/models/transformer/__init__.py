"""Transformer: encoder-decoder model of Vaswani et al. 2017 and its variants.

config                   keys of a recipe, and the model that they describe
layer_config             keys of a layer, shared with the decoder-only model
attention_compatibility  which kinds of attention, positions and heads work together
model                    encoder, decoder, embeddings, `start` and `step`
layers                   encoder and decoder layer
parallel_layers          the same with sublayers that run in parallel
stack                    layers in the order in which they are applied, LayerDrop
head_counts              number of heads of each layer, where some were pruned
sharing                  which layers of a stack share their weights
"""
