"""Evaluation of translations.

config: the `evaluation` section of a recipe.
tokenizer_choice: the tokenizer of BLEU, by language and script.
calibration: token accuracy and calibration error.
plausibility: warnings about inputs that are no translations.
score: BLEU, chrF and TER by sacreBLEU.
moses: Moses tokenization.
sentence: sentence-level similarity.
significance: paired bootstrap test.
repetition: repetition rate.
table: scores as a table.
"""
