"""Noise on monolingual text: the source is a corrupted sentence, the target its restoration."""
