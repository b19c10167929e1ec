"""Decoder inputs: the tokens that the decoder reads in training.

config                 configurations, and the union of kinds that a recipe can name
capabilities           base class of the configurations
interface              the protocol of decoder inputs, and the ids of the target vocabulary
teacher_forcing        the true tokens
scheduled_sampling     at times the model's own predictions, step by step
parallel_sampling      at times the model's own predictions, in whole passes of the decoder
teacher_forcing_ratio  schedules of the probability of the true token
token_sampler          a token from the logits (argmax, multinomial, Gumbel-max)
target_tokens          replacing tokens of the decoder input
no_grad                forward passes without gradient inside one with gradient
experimental/          confidence-aware scheduled sampling, word dropout, SwitchOut
"""
