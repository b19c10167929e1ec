"""Choice of the keys that a recipe leaves out, from the corpus and the machine (docs/defaults.md)."""
