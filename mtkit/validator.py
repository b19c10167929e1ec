"""How a model is judged while it trains: its nll on the valid set, and the BLEU of a fixed part of it, decoded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from mtkit.corpus.collate import collate_source
from mtkit.corpus.loader import eval_batches
from mtkit.corpus.plan import cut_by_budget
from mtkit.corpus.store import Store
from mtkit.evaluation.config import EvaluationConfig
from mtkit.evaluation.score import score
from mtkit.models.model import TranslationModel
from mtkit.search.config import SearchConfig
from mtkit.search.request import Request, Symbols
from mtkit.text.tokenizer import TokenizerPair
from mtkit.training.decoder_input import TeacherForcing
from mtkit.training.early_stopping import Validation
from mtkit.training.objective import CrossEntropy
from mtkit.training.precision import Precision


@dataclass(frozen=True)
class Part:
    """The sentences of the valid set that are decoded, and what their translations are compared with."""

    samples: list[int]
    src: list[str]
    ref: list[str]


def spread(count: int, wanted: int) -> list[int]:
    """Up to `wanted` of the numbers 0 ... count - 1, evenly spread, always the same."""
    return np.unique(np.linspace(0, count - 1, min(count, wanted)).round().astype(int)).tolist() if wanted else []


class Validator:
    """Judges a model at an update; it changes nothing in it.

    Args:
        store: the binarised valid set.
        tokenizers: that it was made with.
        search: how sentences are decoded.
        sentences: how many of them are decoded; 0 leaves BLEU out.
        batch_tokens: sentences × longest side of a batch.
        precision: of the forward passes.
        evaluation: how BLEU cuts text; tgt_lang is the code of the target language.
    """

    def __init__(
        self,
        store: Store,
        tokenizers: TokenizerPair,
        *,
        search: SearchConfig,
        sentences: int,
        batch_tokens: int,
        precision: Precision,
        evaluation: EvaluationConfig,
        tgt_lang: str,
    ) -> None:
        self.store = store
        self.tokenizers = tokenizers
        self.batch_tokens = batch_tokens
        self.precision = precision
        self.search_config = search
        self.search = search.build(symbols(tokenizers, search), with_log_probs=False)
        self.segmentation = evaluation.segmentation(tgt_lang)
        samples = spread(len(store), sentences)
        self.part = Part(
            samples=samples,
            src=[store.text("src", sample) for sample in samples],
            ref=[store.text("tgt", sample) for sample in samples],
        )
        self.shown = _middle([len(text) for text in self.part.src])

    def __call__(self, model: TranslationModel, update: int) -> Validation:
        """The nll of the whole valid set and the BLEU of the decoded part."""
        nll = self.nll(model)
        if not self.part.samples:
            return Validation(nll=nll)
        hyps = self.decode(model)
        bleu = score(hyps, [self.part.ref], ["bleu"], tokenize=self.segmentation).bleu
        sample = (self.part.src[self.shown], hyps[self.shown], self.part.ref[self.shown])
        return Validation(nll=nll, bleu=None if bleu is None else bleu.value, sample=sample)

    @torch.no_grad()
    def nll(self, model: TranslationModel) -> float:
        """Nats per target token of the whole valid set."""
        device = next(model.parameters()).device
        objective = CrossEntropy(TeacherForcing(), 0.0)
        total, tokens = 0.0, 0
        for batch in eval_batches(self.store, batch_tokens=self.batch_tokens):
            with self.precision.autocast():
                losses = model(batch.to(device), objective)
            total += float(losses.sum)
            tokens += losses.tokens
        return total / max(tokens, 1)

    @torch.inference_mode()
    def decode(self, model: TranslationModel) -> list[str]:
        """The translations of the part's sentences, in its order."""
        device = next(model.parameters()).device
        rows = [self.store.ids("src", sample).tolist() for sample in self.part.samples]
        order = sorted(range(len(rows)), key=lambda place: -len(rows[place]))
        lengths = np.array([len(rows[place]) + 1 for place in order])
        found: dict[int, list[int]] = {}
        for begin, end in cut_by_budget(lengths, max(1, self.batch_tokens // self.search_config.rows)):
            places = order[begin:end]
            limit = [self.search_config.max_length.of(len(rows[place]) + 1) for place in places]
            source = collate_source([rows[place] for place in places], self.tokenizers.src.vocab).to(device)
            with self.precision.autocast():
                hypotheses = self.search(model, Request.of(source, torch.tensor(limit, device=device)))
            found |= {place: best[0].tokens for place, best in zip(places, hypotheses, strict=True)}
        return self.tokenizers.tgt.decode([found[place] for place in range(len(rows))])


def _middle(lengths: Sequence[int]) -> int:
    """The place of a sentence of middling length."""
    return sorted(range(len(lengths)), key=lambda place: lengths[place])[len(lengths) // 2] if lengths else 0


def symbols(tokenizers: TokenizerPair, search: SearchConfig) -> Symbols:
    """The ids of the target side that search knows by meaning; what no text contains is never generated."""
    vocab = tokenizers.tgt.vocab
    banned = [piece for piece in tokenizers.tgt.control_ids() if piece != vocab.eos]
    if not search.allow_unknown:
        banned.append(vocab.unk)
    return Symbols(size=vocab.size, bos=vocab.bos, eos=vocab.eos, banned=tuple(sorted({*banned, vocab.pad})))
