"""Recurrent layers.

Shapes: `rows` is the batch axis of a step, B sentences in training and B·W hypotheses in search; M is the width of the
encoder's outputs, A that of attention's hidden layer.

Most classes have two forms: `forward` over a whole sequence, and `make_step_fn`, which returns a function for the
steps of one loop. It prepares once what all steps share: weights in the right type, a dropout mask, deferred gradients.
"""
