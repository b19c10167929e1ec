"""The stages of a run over one run folder, from text files to scores."""
