"""How a model is judged while it trains: its nll on the valid set, and the BLEU of a fixed part of it, decoded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import torch

from mtkit.corpus.noise.noise import Corpus
from mtkit.corpus.order.loader import eval_batches
from mtkit.corpus.store import Store
from mtkit.models.interface import Objective, TranslationModel
from mtkit.training.distributed.process_group import Ranks
from mtkit.training.monitoring.validation import Share, Validation, interleaved
from mtkit.training.precision import Precision

Translate = Callable[[TranslationModel, Sequence[str]], list[str]]


Bleu = Callable[[Sequence[str], Sequence[str]], float]


@dataclass(frozen=True)
class Part:
    """The sentences of the valid set that are decoded, what their translations are compared with, and one to show."""

    src: list[str]
    ref: list[str]
    shown: int

    @classmethod
    def of(cls, store: Store, sentences: int) -> Part:
        """Up to so many sentences, evenly spread over the valid set and always the same."""
        samples = spread(len(store), sentences)
        src = [store.text("src", sample) for sample in samples]
        by_length = sorted(range(len(src)), key=lambda place: len(src[place]))
        return cls(
            src=src,
            ref=[store.text("tgt", sample) for sample in samples],
            shown=by_length[len(src) // 2] if src else 0,  # of middling length
        )


def spread(count: int, wanted: int) -> list[int]:
    """Up to `wanted` of the numbers 0 ... count - 1, evenly spread."""
    chosen = np.linspace(0, count - 1, min(count, wanted)).round().astype(int)
    return [int(number) for number in np.unique(chosen)]


class Validator:
    """Judges a model (see `training.validation.Validate`).

    Args:
        corpus: the binarised valid set.
        part: of it, to be decoded; an empty one leaves BLEU out.
        translate: gives the model's translations of lines.
        bleu: of translations and references, 0 to 100.
        batch_tokens: sentences × longest side of a batch.
        precision: of the forward passes.
        objective: gives the nll, without label smoothing.
    """

    def __init__(
        self,
        corpus: Corpus,
        part: Part,
        *,
        translate: Translate,
        bleu: Bleu,
        batch_tokens: int,
        precision: Precision,
        objective: Objective,
    ) -> None:
        self.corpus = corpus
        self.part = part
        self.translate = translate
        self.bleu = bleu
        self.batch_tokens = batch_tokens
        self.precision = precision
        self.objective = objective

    @torch.no_grad()
    def share(self, model: TranslationModel, update: int, ranks: Ranks) -> Share:
        """The loss, without label smoothing, of each batch that is this rank's turn, and as many of the translations.

        Batches are those of one process, so that their sum, in the order of batches, is the same to the bit.
        """
        device = next(model.parameters()).device
        nats, tokens = [], 0
        batches = eval_batches(self.corpus, batch_tokens=self.batch_tokens)
        for batch in islice(batches, ranks.rank, None, ranks.world_size):
            with self.precision.autocast():
                losses = model(batch.to(device), self.objective)
            nats.append(float(losses.sum))
            tokens += losses.tokens
        mine = self.part.src[ranks.rank :: ranks.world_size]
        return Share(nats, tokens, self.translate(model, mine) if mine else [])

    def join(self, shares: Sequence[Share]) -> Validation:
        """The nll of the whole valid set, in nats per scored token, and the BLEU of the decoded part."""
        nats = sum(interleaved([share.nats for share in shares]))
        nll = nats / max(sum(share.tokens for share in shares), 1)
        part = self.part
        if not part.src:
            return Validation(nll=nll)
        hyps = interleaved([share.hyps for share in shares])
        sample = (part.src[part.shown], hyps[part.shown], part.ref[part.shown])
        return Validation(nll=nll, bleu=self.bleu(hyps, part.ref), sample=sample)
