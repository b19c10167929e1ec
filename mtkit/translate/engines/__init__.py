"""Engines that translate batches.

interface        the protocol, and ids with a meaning for search
fast_engine      whole searches in the native library, without torch
model_engine     models and searches as they are written, and scores of given translations by them
started_engine   tokens before each translation, such as the name of the target language
batch_budget     batches within a budget of tokens, in halves where memory runs out
"""
