"""Engines that translate batches.

interface        the protocol
fast_engine      whole searches in the native library, without torch
model_engine     models and searches as they are written
forced_decoding  scores of given translations by models as written
batch_budget     batches within a budget of tokens, in halves where memory runs out
"""
