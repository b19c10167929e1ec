"""Optimisers and learning rate schedules of `training.optimiser` and `training.schedule`.

config    configurations, their base class, and the union of kinds that a recipe can name; those of torch need no more
base      parameter groups, learning rates, state as named tensors; Lion and Muon
schedule  learning rate schedules with their configurations, and the union of kinds that a recipe can name

Template of a new optimiser: tests/toy/new_kinds/sign_sgd.py, and its configuration in tests/toy/new_kinds/configs.py.
"""
