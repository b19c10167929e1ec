"""Beam search."""
