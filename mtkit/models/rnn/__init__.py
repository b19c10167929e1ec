"""Recurrent models: an encoder RNN and a decoder RNN."""
