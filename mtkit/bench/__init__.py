"""Benchmark of translation (`mtkit bench`) and state of the machine (`mtkit doctor`).

grid      settings, every combination of which is measured, and the table of results
measure   measurement of each setting in its own process
suite     the whole benchmark of one model (`mtkit bench --suite`)
machine   versions, hardware, speed of matrix products, problems
"""
