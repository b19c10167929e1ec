"""Descriptions of architectures (`mtkit describe`, `plot --positions`, `plot --gradients`), without training."""
