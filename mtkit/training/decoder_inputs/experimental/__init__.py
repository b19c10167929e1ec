"""Experimental decoder inputs from the literature on exposure bias.

confidence_aware  predictions where the model is confident
word_dropout      tokens replaced by unk
switch_out        tokens replaced by random ones
"""
