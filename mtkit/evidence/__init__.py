"""Claims of the literature, each tested by a short study: `mtkit reproduce`."""
