"""The whole route over one run folder: tokenizer, corpus, training, translation, scores."""

from mtkit.pipeline.dry_run import dry_run
from mtkit.pipeline.stages import Report, evaluate_run, preprocess, run, train, train_tokenizer

__all__ = ["Report", "dry_run", "evaluate_run", "preprocess", "run", "train", "train_tokenizer"]
