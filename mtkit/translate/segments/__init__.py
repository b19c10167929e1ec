"""Segments: what search gets of a text, and what becomes of its translations."""
