"""Commands: translation.

translate  translations of text
score      log-probabilities of given translations
options/   options of `mtkit translate`
"""
