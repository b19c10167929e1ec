"""Fidelity of translations: spans of the source and terms of a glossary that they must contain.

ranges     characters of the target that belong to characters of the source, by attention
removal    spans taken out of a source, and put into the translation of the rest
restore    spans that a translation lacks, put where attention says
glossary   files of terms, and terms of a line
repair     repair of the best translation: terms forced, spans put back, flags
"""
