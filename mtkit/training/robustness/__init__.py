"""Handling of what goes wrong in a long training.

oom                 micro-batches that do not fit into memory
batch_size_search   `training.batch_tokens: auto`
nonfinite           losses and gradients that are not finite
divergence          detection of a diverging training
rollback            return to the best checkpoint
pending_signal      SIGINT, SIGTERM, SIGHUP and SIGUSR1
deterministic       `training.deterministic`
numerics            what the bits of the arithmetic depend on: threads, processor, torch version
"""
