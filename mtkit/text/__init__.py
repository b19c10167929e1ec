"""Text files, normalisation and subword tokenizers.

lines                   text files read line by line (UTF-8, plain or compressed)
form/                   the normaliser before the tokenizer
normalise               Unicode normalisation of a line before tokenization
special_tokens          reserved tokens of every vocabulary (mask, tags, sentinels)
copy_tokens             reserved tokens for spans that a translation keeps
vocab                   size and special ids of a vocabulary
config                  the `tokenizer` section of a recipe
tokenizer               the tokenizer pair of a translation system
subword/                text to token ids and back by one subword model, also of another program
structure/              sentences and inline marks of a text
token_lines             lines of text to lines of tokens or ids and back
train_tokenizer         training of sentencepiece models
subword_regularization  BPE-dropout and unigram sampling, reproducible across processes
language                languages of text files, guessed
source_prefix           tag and text that the model reads before a source
word_vectors            pre-trained word vectors matched to the tokens of a vocabulary
"""
