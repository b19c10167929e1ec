"""Building objects from a recipe or a model folder: the only place that joins text, corpus, models, search, training.

training          model, loader, learner and validator of a recipe
measure_training  time and memory of a training and of its micro-batches, measured on dummy batches
initial_weights   pre-trained weights and word vectors
validator         nll and BLEU on the validation set, and translations sampled during training
reference_text    a text with references, and its batches for a loaded model
translator        translators and scorers from model folders and ensembles
language_model    a language model beside a translation model
engine            the engine that runs a model: fast, or as it is written
trained_adapter   the adapter of a finished training, and its merging into the model
adapters          several adapters of one model, chosen by line
translator_spec   everything that decides which translator is loaded
"""
