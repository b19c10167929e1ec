"""Checkpoints of a training and averages of weights.

config       keys of a recipe on averages and on what is kept
checkpoint   folder format: write, verify, read, quarantine; the list for `mtkit checkpoints`
tensor_file  safetensors files
writer       background thread that writes checkpoints and applies `training.keep`
averaging    exponential moving average during training, and mean of several checkpoints after it
"""
