"""Commands: preparation of text.

fetch          known corpora
train_bpe      subword models
train_vectors  word vectors
encode         text to tokens
decode         tokens to text
preprocess     tokenizer and binarised corpora of a recipe
"""
