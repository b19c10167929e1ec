"""Studies: variants of a recipe, each trained from several seeds and compared in one table."""
