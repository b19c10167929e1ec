"""Observation of a training.

log              events of log.jsonl, and displays of them
meter            losses and throughput between two log lines
gradient_stats   gradient norm and relative update size of each module
tensorboard      event files for TensorBoard
follow           display of a training that another process runs
validation       validation sharded over the processes
early_stopping   the best validations, and patience
saved_tensors    bytes that autograd saves for the backward pass
"""
