"""Subword models: sentencepiece's own and others, and the use of a model on text."""
