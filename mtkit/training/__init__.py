"""Training of a model.

loop                  `train`: the updates from the newest checkpoint to the end of the recipe
run                   bookkeeping between two updates: log, validation, checkpoints, stop conditions
learner               arithmetic of one update: forward, backward, clip, step
config                the recipe's `training:` section
key_types             choices and ranges of keys that modules share with the configurations
chunked_loss          label-smoothed cross-entropy without [N, V] logits
time_budget           schedule and end by the share of a time that is spent
progress              state of a training that is not a tensor
weights               weights of a model by name, and those that patterns select
precision             `training.precision` and `training.compile`
adapters              few trained weights of a model whose others are frozen
seeding               seeds as functions of (seed, update, micro-batch)

objectives/           losses
decoder_inputs/       teacher forcing and its alternatives
optimisers/           optimisers and learning rate schedules
checkpoints/          checkpoints and averages of weights
distributed/          several processes: gradients, FSDP, heartbeat
monitoring/           log, validation, statistics
robustness/           out of memory, divergence, signals
"""
