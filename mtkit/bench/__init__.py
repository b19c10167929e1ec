"""Benchmark of translation (`mtkit bench`) and state of the machine (`mtkit doctor`).

grid      settings, every combination of which is measured, and results
measure   measurement of each setting in its own process
table     results for the terminal
suite     the whole benchmark of one model (`mtkit bench --suite`)
machine   versions, hardware, speed of matrix products, problems
"""
