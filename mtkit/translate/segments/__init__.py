"""Segments: what search gets of a text, and what becomes of its translations.

windows       how many lines are read at a time
split         lines to segments
long_lines    where a line is split that is longer than any training source
segment       a line, or a part of a long line, with its hypotheses
merge         translations of segments to those of lines
"""
