"""Commands: deployment."""
