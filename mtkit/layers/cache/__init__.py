"""Decoder state: what each layer stores of the tokens so far."""
