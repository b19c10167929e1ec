"""Form of a text: what makes no difference to its translation.

folding   typographic characters of a source, read as their common forms
plain     the normaliser that training and translation apply before the tokenizer
spans     URLs, numbers, placeholders and others that a translation must contain
variants  capitals, title case, quotation marks and final stops, which training and translation may vary
"""
