"""Interfaces of the server over HTTP."""
