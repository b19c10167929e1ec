"""Documents: readers and writers that find the text in a file and replace nothing else.

A file is read as a stream of stretches, such as a translation unit or a whole page, and each stretch has text units: a
text with inline marks, and the range of characters that its translation takes. Memory is bounded by a stretch.
"""
