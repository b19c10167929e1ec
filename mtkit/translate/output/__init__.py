"""Output of translations: to stdout and to files that can be resumed.

translate_to_file   reads source lines in windows, and writes a line for each to every destination
formats             forms of a translation: text, n-best list, JSON, word alignment, record of a flagged line
progress            lines done, rate and time left of a translation to a file; summary of flagged lines
"""
