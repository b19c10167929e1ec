"""Experiments: one module each, with `trials`, COUNT and the promise as docstring."""

NAMES = (
    "kills",
    "flips",
    "disks",
    "signals",
    "documents",
    "folders",
    "recipes",
    "writers",
    "fuzzers",
    "ranks",
)
