"""Engines that translate batches.

interface     the protocol, and ModelEngine: a model or ensemble and its search
batch_budget  batches within a budget of tokens, in halves where memory runs out
"""
