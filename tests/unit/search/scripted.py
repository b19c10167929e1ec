"""A Stepper without a network: a random table of next-token logits over whole histories, and all its sentences."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from mtkit.search.beam import BeamSearch
from mtkit.search.beam_state import TopExtensions
from mtkit.search.config import SearchConfig
from mtkit.search.hypothesis import SearchSettings, SpecialIds
from mtkit.search.interface import SearchRequest
from mtkit.search.single_path import SinglePathSearch, argmax

EOS, BOS, PAD = 0, 1, 2  # the ordinary tokens follow


@dataclass(frozen=True)
class ScriptedState:
    sentences: Tensor  # [B] memory
    histories: Tensor  # [rows, t] cache, bos first

    @property
    def num_sentences(self) -> int:
        return self.sentences.numel()

    @property
    def num_rows(self) -> int:
        return self.histories.size(0)

    def select_rows(self, rows):
        width = rows.numel() // self.num_sentences
        old = self.num_rows // self.num_sentences
        assert torch.equal(rows // old, torch.arange(self.num_sentences).repeat_interleave(width)), "not grouped"
        return replace(self, histories=self.histories[rows])

    def keep_sentences(self, sentences):
        width = self.num_rows // self.num_sentences
        rows = (sentences.unsqueeze(1) * width + torch.arange(width)).flatten()
        return replace(self, sentences=self.sentences[sentences], histories=self.histories[rows])


class ScriptedStep(NamedTuple):
    all_logits: Tensor
    state: ScriptedState
    attention: Tensor | None

    def logits(self, rows=slice(None)):
        return self.all_logits[rows]

    def language_model_log_probs(self, rows):
        return None


class ScriptedModel:
    """Logits are a pure function of (seed, sentence, history)."""

    def __init__(self, vocab: int = 6, seed: int = 0, scale: float = 2.0, source_length: int = 3) -> None:
        self.vocab, self.seed, self.scale, self.source_length = vocab, seed, scale, source_length
        self.special_ids = SpecialIds(vocab_size=vocab, bos=BOS, eos=EOS, banned=(BOS, PAD))
        self.rows_stepped = 0
        self._table: dict = {}

    def start(self, source: Tensor) -> ScriptedState:
        return ScriptedState(source, torch.empty(source.numel(), 0, dtype=torch.int64))

    def step(self, token: Tensor, state: ScriptedState) -> ScriptedStep:
        self.rows_stepped += token.numel()
        histories = torch.cat([state.histories, token.unsqueeze(1)], dim=1)
        width = histories.size(0) // state.num_sentences
        both = [self.lookup(int(state.sentences[i // width]), tuple(h)) for i, h in enumerate(histories.tolist())]
        logits = torch.stack([logits for logits, _ in both])
        attention = torch.stack([a for _, a in both])
        return ScriptedStep(logits, replace(state, histories=histories), attention)

    def lookup(self, sentence: int, history: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        """Logits [V] and attention [H, S] after a history, bos first."""
        key = (sentence, *history)
        if key not in self._table:
            g = torch.Generator().manual_seed(hash((self.seed, *key)) % 2**31)
            logits = torch.randn(self.vocab, generator=g) * self.scale
            attention = torch.randn(2, self.source_length, generator=g).mul(2).softmax(-1)
            self._table[key] = logits, attention
        return self._table[key]

    def log_probs(self, sentence: int, tokens: tuple[int, ...]) -> list[float]:
        """Of each token and the end."""
        values, history = [], (BOS,)
        for token in (*tokens, EOS):
            values.append(float(self.lookup(sentence, history)[0].double().log_softmax(-1)[token]))
            history = (*history, token)
        return values

    def attention(self, sentence: int, tokens: tuple[int, ...]) -> Tensor:
        """[T + 1, S], mean of heads."""
        return torch.stack([self.lookup(sentence, (BOS, *tokens[:t]))[1].mean(0) for t in range(len(tokens) + 1)])

    def all_sentences(self, max_length: int):
        tokens = range(3, self.vocab)
        return [s for n in range(max_length + 1) for s in itertools.product(tokens, repeat=n)]


def search_settings(model, **changes) -> SearchSettings:
    returned = {key: changes.pop(key) for key in ("with_log_probs", "with_attention") if key in changes}
    return SearchSettings(config=SearchConfig(**changes), special_ids=model.special_ids, **returned)


def beam(model, *, selector=None, **changes) -> BeamSearch:
    """Beam search; exhaustive on small models unless changed."""
    settings = search_settings(model, **{"beam_size": 100, "n_best": 5, "patience": math.inf, **changes})
    return BeamSearch(settings, selector or TopExtensions())


def single_path(model, *, choose=argmax, num_paths=1, **changes) -> SinglePathSearch:
    settings = search_settings(model, beam_size=num_paths, n_best=num_paths, **changes)
    return SinglePathSearch(settings, choose, num_paths)


def request(sentences, max_length: int, **changes) -> SearchRequest:
    plain = SearchRequest.of(torch.tensor(sentences), torch.full((len(sentences),), max_length))
    return SearchRequest(**{**vars(plain), **changes})
