"""Kinds to compare with those that translation is made of: sparse and linear attention, relative positions, experts."""
