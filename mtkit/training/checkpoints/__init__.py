"""Checkpoints of a training and averages of weights.

config        keys of a recipe on averages and on what is kept
checkpoint    folder format: write, verify, read, quarantine
tensor_file   safetensors files
writer        background thread that writes checkpoints and applies `training.keep`
ema           exponential moving average of the weights during training
averaging     mean of several checkpoints after training
listing       checkpoints of a run with their state, for `mtkit checkpoints`
"""
