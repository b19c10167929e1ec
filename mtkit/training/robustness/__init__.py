"""Handling of what goes wrong in a long training.

oom                micro-batches that do not fit into memory, or whose loss or gradient is not finite
batch_size_search  `training.batch_tokens: auto`
divergence         detection of a diverging training
rollback           return to the best checkpoint
pending_signal     SIGINT, SIGTERM, SIGHUP and SIGUSR1
numerics           `training.deterministic`, and what the bits of the arithmetic depend on
"""
