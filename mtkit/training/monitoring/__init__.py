"""Observation of a training.

log                 events of log.jsonl, and displays of them
meter               losses and throughput between two log lines
gradient_stats      gradient norm and relative update size of each module
tensorboard         event files for TensorBoard
trackers            Weights & Biases and MLflow
follow              display of a training that another process runs
validation          validation sharded over the processes
validation_command  metric that a command of the user computes
busy_machine        other processes that use the cores of a training
early_stopping      the best validations, and patience
saved_tensors       bytes that autograd saves for the backward pass
"""
