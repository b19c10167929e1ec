"""Disk, locks and network."""
