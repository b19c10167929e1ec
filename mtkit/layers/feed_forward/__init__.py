"""Feed-forward sublayers."""
