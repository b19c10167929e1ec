"""How surprised a model is by sentences it was not trained on."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from mtkit.corpus.batch import Batch
from mtkit.models.model import TranslationModel
from mtkit.training.decoder_input import TeacherForcing
from mtkit.training.objective import CrossEntropy
from mtkit.training.precision import Precision


@torch.no_grad()
def mean_nll(model: TranslationModel, batches: Iterable[Batch], *, precision: Precision) -> float:
    """Nats per scored token of the batches, given the true prefix and without label smoothing.

    Raises:
        ValueError: nothing is scored.
    """
    objective = CrossEntropy(TeacherForcing(), 0.0)
    device = next(model.parameters()).device
    was_training = model.training
    model.eval()
    total, tokens = torch.zeros((), dtype=torch.float64, device=device), 0
    for batch in batches:
        with precision.autocast():
            losses = model(batch.to(device), objective)
        total += losses.sum.double()
        tokens += losses.tokens
    model.train(was_training)
    if not tokens:
        raise ValueError("no token to score in the validation batches")
    return float(total) / tokens
