"""Text files, normalisation and subword tokenizers."""
