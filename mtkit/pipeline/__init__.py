"""The stages of a run over one run folder, from text files to scores.

stages             the commands run, train-bpe, preprocess, train and evaluate as functions
run_folder         paths, format version and records of a run folder
open_run           a run folder that is locked, with its recipe and its log
reconcile          changes of a recipe that a training can continue with; identity of the validation metric
prepare_tokenizer  tokenizer
prepare_corpus     binarised corpora, lexicon
train_stage        training, from the corpora to the model folder
score_summary      perplexity, accuracy and calibration of given translations
score_test_sets    translations and scores of the test sets
plots              learning curve and attention map
average            mean of several checkpoints
dry_run            estimate of memory and time
setup/             from text files to a complete recipe
"""
