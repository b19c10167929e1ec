"""Structure of a text above its tokens.

sentences  sentences of a text, by rules
marked     text with inline marks, the tags of a document, and their places in a translation
xml_check  check of XML from others: well-formed, without entities
"""
