"""Output of translations: to stdout and to files that can be resumed."""
