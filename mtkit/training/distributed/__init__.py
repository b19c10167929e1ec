"""Training on several processes.

process_group   collective operations on numbers, texts and gradients; the identity in a single process
fsdp            sharded models, and tensors that may be sharded
heartbeat       detection of dead processes
"""
