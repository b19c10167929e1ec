"""Benchmark of translation (`mtkit bench`) and state of the machine (`mtkit doctor`)."""
