"""Attention: kinds of self-attention, their kernels, and cross-attention.

Template of a new kind: tests/toy/new_kinds/uniform.py, and its configuration in tests/toy/new_kinds/configs.py.
"""
