"""Engines that translate batches."""
