"""Beam search.

beam       the loop and the `beam` method
state      live hypotheses and their extensions
finished   the pool of finished hypotheses
selection  interface of the choice of extensions; the plain choice of the best
diverse    the `diverse` method: groups that penalise each other's tokens
coverage   coverage penalty
"""
