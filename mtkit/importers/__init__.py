"""Import of models of other programs as model folders."""
