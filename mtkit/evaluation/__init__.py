"""Evaluation of translations.

config            the `evaluation` section of a recipe
tokenizer_choice  the tokenizer of BLEU, by language and script
calibration       token accuracy and calibration error
plausibility      warnings about inputs that are no translations
metrics           the metrics of sacreBLEU for the script of the references; Moses tokens
similarity        of every text of a list to every other one, for minimum Bayes risk
score             BLEU, chrF and TER by sacreBLEU
comparison        several systems with intervals, paired tests, by length and by document
resampling        bootstrap intervals and paired tests on segment statistics
word_statistics   repetition rate, and F1 of words that are rare in training
table             scores as a table
"""
