"""Commands: training."""
