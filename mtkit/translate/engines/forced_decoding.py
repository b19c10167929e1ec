"""Forced decoding: log-probabilities of given translations by models as they are written."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import torch
from torch import Tensor

from mtkit.corpus.order.batch import Batch
from mtkit.models.interface import TranslationModel
from mtkit.search.fast_topk import log_normaliser
from mtkit.search.hypothesis import ScoredToken

CHUNK_POSITIONS = 512  # target positions whose logits are in memory at a time


@torch.inference_mode()
def score_tokens(models: Sequence[TranslationModel], batch: Batch) -> list[list[ScoredToken]]:
    """Scores of the labels of each sentence of a batch, the end of sentence included."""
    batch = batch.to(next(models[0].parameters()).device)
    hidden = [model.decode_states(batch.source, batch.target)[batch.loss_mask] for model in models]  # each [N, D]
    labels = batch.labels[batch.loss_mask]  # [N]
    chunks = []
    for start in range(0, labels.numel(), CHUNK_POSITIONS):
        chunk = slice(start, start + CHUNK_POSITIONS)
        logits = [model.output(states[chunk]) for model, states in zip(models, hidden, strict=True)]
        chunks.append(_score_labels(logits, labels[chunk]))
    fields = (torch.cat(each).tolist() for each in zip(*chunks, strict=True))
    scores = (ScoredToken(*each) for each in zip(*fields, strict=True))
    return [list(itertools.islice(scores, count)) for count in batch.loss_mask.sum(1).tolist()]


def _score_labels(logits: Sequence[Tensor], labels: Tensor) -> tuple[Tensor, Tensor]:
    """Log-probabilities of labels [n] and of the best tokens, each [n], by the mean of the models' distributions.

    Args:
        logits: of each model, [n, V].
        labels: [n].
    """
    values, normaliser = logits[0], None
    if len(logits) > 1:
        values = torch.stack([each.float().log_softmax(-1) for each in logits]).logsumexp(0) - math.log(len(logits))
    else:
        normaliser = log_normaliser(values)  # [n]
    label = values.gather(1, labels.unsqueeze(1)).squeeze(1).float()
    best = values.amax(1).float()
    return (label, best) if normaliser is None else (label - normaliser, best - normaliser)
