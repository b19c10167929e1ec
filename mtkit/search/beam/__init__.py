"""Beam search.

beam       the loop
state      live hypotheses and their extensions
finished   the pool of finished hypotheses
selection  interface of the choice of extensions; the plain choice of the best
diverse    groups that penalise each other's tokens
coverage   coverage penalty
"""
