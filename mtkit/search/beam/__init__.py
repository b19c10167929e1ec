"""Beam search.

beam       the loop
state      live hypotheses and their extensions; the pool of finished hypotheses
selection  choice of extensions: the best, or those of diverse groups
stopping   stopping rules
coverage   coverage penalty
"""
