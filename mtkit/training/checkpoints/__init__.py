"""Checkpoints of a training and averages of weights."""
