"""Free-running loss: validation loss of a decoder that reads its own tokens, a measure of exposure bias."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain

import torch
from torch import Tensor

from mtkit.corpus.order.batch import Batch
from mtkit.corpus.order.loader import eval_batches
from mtkit.corpus.store import MANIFEST, Store
from mtkit.errors import DamagedError
from mtkit.hardware import default_device
from mtkit.io.files import hash_file
from mtkit.io.records import write_record
from mtkit.model_folder.config_file import WEIGHTS
from mtkit.model_folder.folder import read_model
from mtkit.models.interface import TranslationModel
from mtkit.pipeline.run_folder import FiniteFloat, RunFolder, read_json
from mtkit.training.decoder_inputs.interface import DecoderInput
from mtkit.training.decoder_inputs.scheduled_sampling import step_by_step
from mtkit.training.decoder_inputs.target_tokens import sample_argmax
from mtkit.training.objectives.cross_entropy import CrossEntropy

CACHE_FILE = "free_running.json"
BATCH_TOKENS = 4096  # sentences × longest side; the loss does not depend on it


@dataclass(frozen=True)
class CachedLoss:
    """Content of the cache file in the run folder; valid for the weights and validation sets with this hash."""

    measured: str
    nats_per_token: FiniteFloat


class FreeRunning(DecoderInput):
    """Decoder input without teacher forcing: after bos, the decoder reads its own most probable tokens."""

    def __call__(self, model: TranslationModel, batch: Batch) -> Tensor:
        """Decoder states of the scored tokens, see DecoderInput."""
        no_truth = torch.zeros_like(batch.target.ids, dtype=torch.bool)  # [B, T]
        return step_by_step(model, batch, truth=no_truth, sampler=sample_argmax)


def free_running_loss(folder: RunFolder) -> float:
    """Loss on the validation set in nats per reference token, without teacher forcing; cached in the run folder.

    Like the validation loss, it scores each reference token at its position, whatever tokens the decoder has read.

    Raises:
        MissingInputError, DataError: the model or the binary corpus is missing or corrupted.
    """
    path = folder.path / CACHE_FILE
    valid = folder.open_valid(folder.load_recipe())
    files = [folder.model / WEIGHTS, *(store.folder / MANIFEST for store in valid)]
    measured = hashlib.sha256("".join(map(hash_file, files)).encode()).hexdigest()
    with suppress(DamagedError):  # then it is measured again
        cached = read_json(path, CachedLoss)
        if cached and cached["measured"] == measured:
            return float(cached["nats_per_token"])
    loss = _measure(read_model(folder.model).model.to(default_device()), valid)
    write_record(path, {"measured": measured, "nats_per_token": loss})
    return loss


@torch.no_grad()
def _measure(model: TranslationModel, valid: Sequence[Store]) -> float:
    objective = CrossEntropy(FreeRunning(), 0.0)
    total, tokens = 0.0, 0
    batches = (eval_batches(store, batch_tokens=BATCH_TOKENS) for store in valid)
    for batch in chain.from_iterable(batches):
        losses = model(batch.to(default_device()), objective)
        total += float(losses.sum)
        tokens += losses.tokens
    return total / max(tokens, 1)
