"""Decoder inputs: the tokens that the decoder reads in training.

config              configurations, schedules of the teacher forcing ratio, and the union of kinds
interface           the base class of decoder inputs, the ids of the target vocabulary, passes without gradient
scheduled_sampling  teacher forcing, and scheduled sampling step by step or in whole passes of the decoder
noise               word dropout, SwitchOut, confidence-aware scheduled sampling
target_tokens       tokens that can be replaced, and tokens chosen from logits (argmax, multinomial, Gumbel-max)
"""
