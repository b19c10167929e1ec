"""Norms and residual connections."""
