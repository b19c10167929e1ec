"""Training and validation data: from text files to micro-batches."""
