"""Optimisers and learning rate schedules of `training.optimiser` and `training.schedule`.

Template of a new optimiser: tests/toy/new_kinds/sign_sgd.py, and its configuration in tests/toy/new_kinds/configs.py.
"""
