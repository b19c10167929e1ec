"""Commands: evaluation."""
