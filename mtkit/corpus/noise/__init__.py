"""Noise on monolingual text: the source is a corrupted sentence, the target its restoration.

config           the union of kinds that a recipe can name
noise            the protocol of noise functions, their vocabulary, and the corpus that applies one
row_rng          random numbers for ragged rows, reproducible for each sentence
mlm              masked language modelling (BERT), for the encoder alone
span_corruption  removed spans and sentinels (T5)
bart             infilling, masking, deletion and sentence permutation (BART)
language_model   no source at all, for a language model
"""
