"""From text files to a complete recipe."""
