"""Commands: the whole pipeline."""
