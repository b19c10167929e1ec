"""Position encodings: where order enters a Transformer.

config           configurations of encodings that act in attention, and the union of kinds that a recipe can name
absolute_config  base class of the configurations; those of encodings that are added to the embeddings
base             Position: the hooks that an encoding overrides; no positions (NoPE)
absolute         sinusoids, learned vectors, and for comparison index, index / length and binary codes
rope             rotary encoding of queries and keys, with scaling for longer input (Su et al. 2021)
relative         ALiBi, T5, and the encodings of Shaw et al., Transformer-XL, DeBERTa and TUPE

Template of a new kind: tests/toy/new_kinds/scaled_alibi.py, and its configuration in tests/toy/new_kinds/configs.py.
"""
