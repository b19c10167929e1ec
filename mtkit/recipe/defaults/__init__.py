"""Choice of the keys that a recipe leaves out, from the corpus and the machine (docs/defaults.md).

facts        facts that rules depend on: counts of the training text, limits of a budget; the result of a rule
model_size   rules for `tokenizer:` and `model:`
schedule     rules for `training:`
choose       the table of rules, and their application to a recipe
"""
