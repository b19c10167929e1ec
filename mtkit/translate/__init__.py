"""Translation of text with trained models.

translator          Translator: lines to translations, in order
engines/            what translates a batch
segments/           lines and their parts: splitting, and merging of the translations
constraints         prefix, included and excluded texts of a line
translation         the result for a line
fidelity/           what a translation must contain: spans of the source, terms
alignment           word alignment from attention
repetition          detection of loops
reranking           minimum Bayes risk, and the scores of a language model
next_words          words that may follow the beginning of a translation
score               forced decoding: log-probabilities of given translations
workers             worker processes
source_lines        source lines that are JSON, or have constraints or a prefix
output/             writing translations to stdout and to files that can be resumed
"""
