"""Training on several processes.

process_group  collective operations on numbers, texts and gradients; detection of dead processes
fsdp           sharded models, and tensors that may be sharded
"""
