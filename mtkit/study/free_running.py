"""The loss of a model that reads what it said itself: beside that under teacher forcing, a measure of exposure bias."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from pydantic import FiniteFloat
from torch import Tensor

from mtkit.build.training import default_device
from mtkit.corpus.order.batch import Batch
from mtkit.corpus.order.loader import eval_batches
from mtkit.corpus.store import Store
from mtkit.io.files import hash_file, write_json
from mtkit.model_folder.folder import WEIGHTS, read_model
from mtkit.models.interface import TranslationModel
from mtkit.pipeline.records import read_json
from mtkit.pipeline.run_folder import RunFolder
from mtkit.training.decoder_inputs.scheduled_sampling import step_by_step
from mtkit.training.decoder_inputs.token_sampler import choose_best
from mtkit.training.objectives.cross_entropy import CrossEntropy

FILE = "free_running.json"
BATCH_TOKENS = 4096  # sentences × longest side; the loss does not depend on it


@dataclass(frozen=True)
class Kept:
    """What the run folder remembers of it, for the weights of this hash."""

    weights: str
    nats_per_piece: FiniteFloat


class FreeRunning:
    """The decoder reads the likeliest piece after what it has read, never the truth but for a sentence's first."""

    def __call__(self, model: TranslationModel, batch: Batch) -> Tensor:
        """See DecoderInput."""
        nowhere = torch.zeros_like(batch.target.ids, dtype=torch.bool)
        return step_by_step(model, batch, truth=nowhere, choice=choose_best)

    def set_update(self, update: int) -> None:
        """Nothing changes in the course of training."""


def free_running_loss(folder: RunFolder) -> float:
    """Nats per target piece of the valid set if the decoder never reads the truth; kept in the run folder.

    As the loss of validation, to which it compares: of each true piece at its place, whatever was said before.

    Raises:
        MissingInputError, DataError: the model or the binary corpus is missing or damaged.
    """
    path = folder.path / FILE
    weights = hash_file(folder.model / WEIGHTS)
    kept = read_json(path, Kept)
    if kept and kept["weights"] == weights:
        return float(kept["nats_per_piece"])
    found = _measure(read_model(folder.model).model.to(default_device()), Store(folder.valid))
    write_json(path, {"weights": weights, "nats_per_piece": found})
    return found


@torch.no_grad()
def _measure(model: TranslationModel, valid: Store) -> float:
    objective = CrossEntropy(FreeRunning(), 0.0)
    total, tokens = 0.0, 0
    for batch in eval_batches(valid, batch_tokens=BATCH_TOKENS):
        losses = model(batch.to(default_device()), objective)
        total += float(losses.sum)
        tokens += losses.tokens
    return total / max(tokens, 1)
