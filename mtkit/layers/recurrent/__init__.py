"""Recurrent layers.

Shapes: `rows` is the batch axis of a step, B sentences in training and B·W hypotheses in search; M is the width of the
encoder's outputs, A that of attention's hidden layer.

Most classes have two forms: `forward` over a whole sequence, and `make_step_fn`, which returns a function for the
steps of one loop. It prepares once what all steps share: weights in the right type, a dropout mask, deferred gradients.

config                configurations, and the unions of kinds that a recipe can name
cells                 LSTM, GRU and tanh cells
layer_norm_cells      LSTM and GRU cells with layer norm
stack                 a cell over a sequence, bidirectional layers, stacks, residual connections between layers
attention             RecurrentAttention, the interface of attention over the source; dot and general (Luong)
additive_attention    additive (Bahdanau) and concat (Luong)
local_attention       local-p (Luong)
bahdanau              recurrent layer with attention before each step
input_feeding         recurrent stack with attention after each step, and input feeding
readout               tanh and maxout, before the output projection
dropout               a mask per step, or variational dropout
fused_gates           gates of LSTM and GRU with hand-written gradients
deferred_weight_grad  one weight gradient per loop instead of one per step; explains how
"""
