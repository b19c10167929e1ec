"""Subword models of other programs.

import_tokenizer: models from files: those of mtkit, sentencepiece models of other programs, BPE codes of subword-nmt.
bpe_codes: byte-pair encoding by a file of merges, as subword-nmt applies it.
protobuf: wire format of sentencepiece model files.
"""
