"""Noise on monolingual text: the source is a corrupted sentence, the target its restoration.

config           the kinds that a recipe can name
noise            the protocol of noise functions, the empty source of language models, the corpus that applies noise
row_rng          random numbers for ragged rows, reproducible for each sentence
mlm              masked language modelling (BERT), for the encoder alone
span_corruption  removed spans and sentinels (T5)
bart             infilling, masking, deletion and sentence permutation (BART)
"""
