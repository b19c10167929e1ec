"""Processes that translate for the server: a crash of one ends no request."""
