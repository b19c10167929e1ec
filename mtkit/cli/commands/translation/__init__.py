"""Commands: translation."""
