"""Model families: a batch -> decoder states (training), `start` and `step` (search).

Template of a new family: tests/toy/new_kinds/bag_of_words/.
"""
