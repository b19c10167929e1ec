"""Text files, normalisation and subword tokenizers.

lines: text files read line by line (UTF-8, plain or compressed).
normalise: Unicode normalisation of a line before tokenization.
special_tokens: reserved tokens of every vocabulary (mask, tags, sentinels).
vocab: size and special ids of a vocabulary.
tokenizer: text to token ids and back (sentencepiece); the tokenizer pair of a translation system.
train_tokenizer: training of sentencepiece models.
subword_regularization: BPE-dropout and unigram sampling, reproducible across processes.
word_vectors: pre-trained word vectors matched to the tokens of a vocabulary.
"""
