"""Form of a text: what makes no difference to its translation."""
