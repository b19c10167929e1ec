"""Recipes: one YAML file -> a checked tree of frozen dataclasses.

recipe        Recipe with its sections; reading, overriding, saving
schema        values -> dataclasses, with every error located
rules         conditions across sections, as a table over capabilities
yaml_reader   strict YAML 1.2 with a line number for every value
overrides     `base:` and key=value, merged
builtin       the recipes and studies that come with mtkit
type_hints    members and limits of type hints
key_paths     dotted paths of keys
paths         environment variables in paths
suggestions   "did you mean" for unknown keys and kinds
synonyms      words of other toolkits and mtkit's former words
reference     every key with type, range, default and reason (`mtkit keys`)
defaults/     choice of the keys that a recipe leaves out
"""
