"""Recipes: one YAML file -> a checked tree of frozen dataclasses."""
