"""Analysis of trained models and of text: attention heads, word alignments, word vectors.

attention           the program: a model and a parallel text to a table of all heads
head_statistics     entropy, confidence and relative position of each head; sensitivity of the loss to it
word_alignment      files of reference alignments, alignments of a lexicon, and the alignment error rate
train_word_vectors  skip-gram and CBOW vectors of a text
nearest_words       nearest words and analogies among vectors
"""
