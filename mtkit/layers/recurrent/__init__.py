"""Recurrent layers.

Shapes: `rows` is the batch axis of a step, B sentences in training and B·W hypotheses in search; M is the width of the
encoder's outputs, A that of attention's hidden layer.

Most classes have two forms: `forward` over a whole sequence, and `make_step_fn`, which returns a function for the
steps of one loop. It prepares once what all steps share: weights in the right type, a dropout mask, deferred gradients.

config                configurations, and the unions of kinds that a recipe can name
cells                 LSTM, GRU and tanh cells, also with layer norm
stack                 a cell over a sequence, bidirectional layers, stacks, residual connections between layers
attention             RecurrentAttention, the interface of attention over the source; dot, general and local-p (Luong)
additive_attention    additive (Bahdanau) and concat (Luong)
attentional           layers with attention before each step (Bahdanau), or after it with input feeding (Luong)
readout               tanh and maxout, before the output projection
fused_gates           gates of LSTM and GRU with hand-written gradients
deferred_weight_grad  one weight gradient per loop instead of one per step; explains how
"""
