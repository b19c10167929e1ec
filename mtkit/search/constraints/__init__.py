"""Constraints on hypotheses: functions on the log-probabilities of the next token.

constraint     the interface
repeats        no repeated n-grams, repetition penalty
forced_prefix  translations that begin with given tokens
required       lexically constrained decoding: phrases that a translation must contain
forbidden      texts that a translation must not contain
"""
