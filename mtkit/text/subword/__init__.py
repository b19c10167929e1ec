"""Subword models: those of other programs, and their use on text.

import_tokenizer: models from files: those of mtkit, sentencepiece models of other programs, BPE codes of subword-nmt.
usage_report: fertility, unknown tokens and used vocabulary of each language.
bpe_codes: byte-pair encoding by a file of merges, as subword-nmt applies it.
protobuf: wire format of sentencepiece model files.
"""
