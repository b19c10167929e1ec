"""Benchmark of translation (`mtkit bench`).

grid      settings, every combination of which is measured, and results
measure   measurement of each setting in its own process
table     results for the terminal
"""
