"""The data order: from corpora to micro-batches, reproducible from a seed and resumable at any update.

hash_rng     stateless random numbers, a function of their key
order        the samples of each window (shuffling and mixing of corpora)
segment      token ids of a window, with subword regularization and noise
batching     micro-batches of similar length within a token budget, grouped into updates
collate      ragged rows to padded tensors, and dummy batches for measurements
batch        the tensors that a model receives
ragged       rows of unequal length in one flat array
loader       the stream of updates for training, and batches for validation
prefetch     background thread that computes items ahead of their use
"""
