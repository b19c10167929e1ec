"""Analysis of trained models and of text: attention heads, word alignments, word vectors."""
