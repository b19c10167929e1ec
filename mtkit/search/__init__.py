"""Search: from the logits of a decoder step to the hypotheses of a sentence.

A model takes part through `start` and `step` alone (interface.py), so that every method works with every model family.

To add a method: write a configuration derived from `SearchMethod` in config.py, and add it to the union there.
Template: `PlainGreedy` in tests/toy/new_kinds/configs.py.

Shapes:

    B  sentences                    N  beams: B, or B times the number of diverse groups
    W  hypotheses of a beam         W' hypotheses that were chosen for the next step, at most the beam's width
    V  target vocabulary
    M  candidates of a beam         K  best columns of a row, or of the rows of a beam
    T  or t, target tokens so far   S  source tokens
    H  attention heads              rows: the hypotheses of a batch, N·W; those of beam n are n·W ... n·W + W - 1
"""
