"""Feed-forward sublayers.

config              configurations, and the union of kinds that a recipe can name
dense               two projections with an activation between them; GLU variants: ReGLU, GEGLU, SwiGLU
mixture_of_experts  routed experts (Switch, top-2)
aux_loss            auxiliary losses of layers, collected in a scope
"""
