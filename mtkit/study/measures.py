"""Measures of some studies alone: free-running loss, and BLEU by source length.

Free-running loss is the validation loss of a decoder that reads its own tokens, a measure of exposure bias. BLEU by
length is that of fig. 2 of Bahdanau et al. 2015 (arXiv:1409.0473).
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain

import torch
from torch import Tensor

from mtkit.corpus.order.batch import Batch
from mtkit.corpus.order.loader import eval_batches
from mtkit.corpus.store import MANIFEST
from mtkit.errors import DamagedError
from mtkit.evaluation.score import bleu_of
from mtkit.evaluation.tokenizer_choice import SacrebleuTokenizer
from mtkit.hardware import default_device
from mtkit.io.files import hash_file
from mtkit.io.records import write_record
from mtkit.model_folder.config_file import WEIGHTS
from mtkit.model_folder.folder import read_model
from mtkit.models.interface import TranslationModel
from mtkit.pipeline.run_folder import FiniteFloat, RunFolder, read_json
from mtkit.training.decoder_inputs.interface import DecoderInput, sample_argmax
from mtkit.training.decoder_inputs.scheduled_sampling import step_by_step
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
    model, objective = read_model(folder.model).model.to(default_device()), CrossEntropy(FreeRunning(), 0.0)
    nats, tokens = 0.0, 0
    with torch.no_grad():
        for batch in chain.from_iterable(eval_batches(store, batch_tokens=BATCH_TOKENS) for store in valid):
            losses = model(batch.to(default_device()), objective)
            nats += float(losses.sum)
            tokens += losses.tokens
    loss = nats / max(tokens, 1)
    write_record(path, {"measured": measured, "nats_per_token": loss})
    return loss


def group_names(limits: Sequence[int]) -> list[str]:
    """Names of the length groups: `1-10`, `11-20`, `over 20`."""
    starts = [1, *(limit + 1 for limit in limits)]
    return [f"{start}-{limit}" for start, limit in zip(starts, limits, strict=False)] + [f"over {limits[-1]}"]


def lines_by_length(srcs: Sequence[str], limits: Sequence[int]) -> dict[str, list[int]]:
    """Line indices of each length group; the length of a source is its number of whitespace-separated words.

    Args:
        limits: maximum length of each group except the last, ascending.
    """
    by_name: dict[str, list[int]] = {name: [] for name in group_names(limits)}
    groups = list(by_name.values())
    for index, src in enumerate(srcs):
        groups[bisect_left(limits, len(src.split()))].append(index)
    return by_name


def bleu_of_length_groups(
    srcs: Sequence[str],
    hyps: Sequence[str],
    refs: Sequence[str],
    limits: Sequence[int],
    *,
    tokenize: SacrebleuTokenizer,
) -> dict[str, float]:
    """BLEU of each length group (see lines_by_length); empty groups are left out.

    Args:
        srcs, hyps, refs: equally many lines.
        limits: maximum length of each group except the last, ascending.
    """
    bleu = {}
    for name, indices in lines_by_length(srcs, limits).items():
        if indices:
            group = [hyps[index] for index in indices], [refs[index] for index in indices]
            bleu[name] = bleu_of(*group, tokenize=tokenize)
    return bleu
