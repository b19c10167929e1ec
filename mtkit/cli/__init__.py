"""The commands: one file each, which reads options, calls one function of the library, and prints."""

from mtkit.cli.entry import main

__all__ = ["main"]
