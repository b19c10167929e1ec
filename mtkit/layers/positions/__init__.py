"""Position encodings: where order enters a Transformer.

config           the union of kinds that a recipe can name
capabilities     base class of their configurations
absolute_config  configurations of encodings that are added to the embeddings
relative_config  configurations of encodings that act in attention
base             Position: the hooks that an encoding overrides; no positions (NoPE)
sinusoidal       sinusoids added to the embeddings (Vaswani et al. 2017)
learned          learned vectors added to the embeddings
rope             rotary encoding of queries and keys, with scaling for longer input (Su et al. 2021)
alibi            linear score biases (Press et al. 2022)
shaw             relative vectors on keys and values (Shaw et al. 2018)
t5               learned score bias per distance bucket (Raffel et al. 2020)
transformer_xl   relative encoding with sinusoids and global biases (Dai et al. 2019)
deberta          disentangled attention (He et al. 2021)
tupe             untied content and position scores (Ke et al. 2021)
naive            index, index / length and binary codes added to the embeddings, for comparison

Template of a new kind: tests/toy/new_kinds/scaled_alibi.py, and its configuration in tests/toy/new_kinds/configs.py.
"""
