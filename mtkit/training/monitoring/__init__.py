"""Observation of a training."""
