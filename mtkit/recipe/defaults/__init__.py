"""Choice of the keys that a recipe leaves out, from the corpus and the machine (docs/defaults.md).

statistics   counted facts of the training text
facts        facts that rules depend on, and the result of a rule
vocabulary   rules for `tokenizer:`
model_size   rules for `model:`
schedule     rules for `training:`
choose       the table of rules, and their application to a recipe
"""
