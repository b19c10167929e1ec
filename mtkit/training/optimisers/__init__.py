"""Optimisers and learning rate schedules of `training.optimiser` and `training.schedule`.

config        configurations of optimisers, and the union of kinds that a recipe can name; those of torch need no more
capabilities  base class of the configurations
base          parameter groups and learning rates, for all kinds
state         the state of an optimiser as named tensors
lion          Lion: the sign of a momentum
muon          Muon: orthogonalised momentum for hidden matrices, AdamW for the rest
schedule      learning rate schedules with their configurations, and the union of kinds that a recipe can name

Template of a new optimiser: tests/toy/new_kinds/sign_sgd.py, and its configuration in tests/toy/new_kinds/configs.py.
"""
