"""Recipes: one YAML file -> a checked tree of frozen dataclasses.

sections      Recipe with its sections
recipe        reading of recipes: file -> tree -> dataclasses -> choices; the recipe that a run folder keeps
located       values with the place where each was written
yaml_reader   strict YAML 1.2 with a line number for every value
tree          a file with `base:` and key=value, merged into one tree of values
schema        tree -> dataclasses, with every error located
rules         conditions across sections, as a table over capabilities
type_hints    members and limits of type hints, paths of keys
paths         recipes that come with mtkit; environment variables in paths
suggestions   "did you mean" for unknown keys and kinds
synonyms      words of other toolkits and mtkit's former words
reference     every key with type, range, default and reason (`mtkit keys`)
defaults/     choice of the keys that a recipe leaves out
"""
