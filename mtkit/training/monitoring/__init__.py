"""Observation of a training.

log            events of log.jsonl, displays of them, and the display of a training that another process runs
meter          losses, throughput, and gradient statistics between two log lines
trackers       TensorBoard, Weights & Biases and MLflow
validation     validation sharded over the processes, and by a command of the user
busy_machine   other processes that use the cores of a training
saved_tensors  bytes that autograd saves for the backward pass
"""
