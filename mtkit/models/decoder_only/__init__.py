"""Decoder-only model: one Transformer stack reads the source and continues with the target."""
