"""Decoder state: what each layer stores of the tokens so far.

state          BatchedState, a dataclass of tensors with one row per sentence or hypothesis
kv_cache       KVCache: keys and values in buffers that grow by appending
shared_prefix  SharedPrefixCache: one copy of the keys that the hypotheses of a sentence have in common
"""
