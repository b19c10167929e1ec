"""Translation of text with trained models."""
