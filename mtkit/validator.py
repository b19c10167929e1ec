"""How a model is judged while it trains: its nll on the valid set, and the BLEU of a fixed part of it, decoded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from mtkit.corpus.loader import eval_batches
from mtkit.corpus.noise import Corpus
from mtkit.corpus.store import Store
from mtkit.models.model import Objective, TranslationModel
from mtkit.training.early_stopping import Validation
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
    """Judges a model at an update; it changes nothing in it.

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

    def __call__(self, model: TranslationModel, update: int) -> Validation:
        """The nll of the whole valid set and the BLEU of the decoded part."""
        nll = self.nll(model)
        part = self.part
        if not part.src:
            return Validation(nll=nll)
        hyps = self.translate(model, part.src)
        sample = (part.src[part.shown], hyps[part.shown], part.ref[part.shown])
        return Validation(nll=nll, bleu=self.bleu(hyps, part.ref), sample=sample)

    @torch.no_grad()
    def nll(self, model: TranslationModel) -> float:
        """Nats per scored token of the whole valid set, without label smoothing."""
        device = next(model.parameters()).device
        total, tokens = 0.0, 0
        for batch in eval_batches(self.corpus, batch_tokens=self.batch_tokens):
            with self.precision.autocast():
                losses = model(batch.to(device), self.objective)
            total += float(losses.sum)
            tokens += losses.tokens
        return total / max(tokens, 1)
