"""Position encodings: where order enters a Transformer.

Template of a new kind: tests/toy/new_kinds/scaled_alibi.py, and its configuration in tests/toy/new_kinds/configs.py.
"""
