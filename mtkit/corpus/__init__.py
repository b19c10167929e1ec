"""Training and validation data: from text files to micro-batches.

config        the `corpus` section of a recipe
split         train, valid and test of a corpus, by hashes of the text
cleaning      filters on sentence pairs, with a report of what was dropped
binarise      text files to a binary corpus
store         the binary corpus on disk, memory-mapped
store_writer  writing a binary corpus block by block
line_shift    texts whose lines are shifted
ibm_model1    lexical translation probabilities by IBM Model 1
noise/        denoising objectives on monolingual text
order/        shuffling, batching, padding and prefetching of the training data
"""
