"""Architectures of other programs: their configuration, weights and tokenizers in mtkit's terms."""
