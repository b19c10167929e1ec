"""The data order: from corpora to micro-batches, reproducible from a seed and resumable at any update."""
