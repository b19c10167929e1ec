"""Structure of a text above its tokens.

marked  text with inline marks, the tags of a document
"""
