"""Commands: preparation of text."""
