"""Handling of what goes wrong in a long training."""
