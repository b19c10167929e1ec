"""Formats of documents: where their text is, and how it is written.

Each class with suffixes in a module of this folder is a row of the table of formats (`format.py`): a new format is a
module here and its test.
"""
