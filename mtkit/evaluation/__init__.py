"""Evaluation of translations.

config: the `evaluation` section of a recipe.
score: BLEU, chrF and TER by sacreBLEU.
moses: Moses tokenization.
sentence: sentence-level similarity.
significance: paired bootstrap test.
repetition: repetition rate.
table: scores as a table.
"""
