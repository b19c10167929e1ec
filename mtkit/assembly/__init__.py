"""Building objects from a recipe or a model folder: the place that joins text, corpus, models, search, training."""
