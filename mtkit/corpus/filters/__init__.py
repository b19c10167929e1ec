"""Filters of sentence pairs: each detects one kind of fault, which `mtkit check` names and `mtkit clean` removes."""
