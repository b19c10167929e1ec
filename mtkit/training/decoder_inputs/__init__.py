"""Decoder inputs: the tokens that the decoder reads in training."""
