"""The whole route over one run folder: tokenizer, corpus, training, translation, scores."""

from mtkit.pipeline.average import average
from mtkit.pipeline.dry_run import dry_run
from mtkit.pipeline.plots import plot_attention
from mtkit.pipeline.stages import Report, evaluate_run, preprocess, run, train, train_tokenizer

__all__ = [
    "Report",
    "average",
    "dry_run",
    "evaluate_run",
    "plot_attention",
    "preprocess",
    "run",
    "train",
    "train_tokenizer",
]
