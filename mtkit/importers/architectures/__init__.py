"""Architectures of other programs: their configuration, weights and tokenizers in mtkit's terms.

registry      the architectures, by the name that their config.json gives
architecture  what the file of an architecture states: configuration, weights, tokenizers
bart_layers   names of weights and keys that Marian, M2M-100 and BART have in common
marian        Marian and OPUS-MT
m2m100        M2M-100 and NLLB
mbart         mBART of 50 languages
"""
