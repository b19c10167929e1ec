"""What every translation model offers: one forward to training, `start` and `step` to search."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple, Protocol

import torch.nn.functional as F
from torch import Tensor, nn

from mtkit.corpus.order.batch import Batch, Source, Target
from mtkit.layers.cache.state import Rows
from mtkit.layers.feed_forward.aux_loss import recording
from mtkit.layers.int8_linear import Int8Linear
from mtkit.layers.layer_call import compile_layers, recompute_layers
from mtkit.layers.screened_linear import ScreenedLinear


@dataclass(frozen=True)
class Losses:
    """What an objective gives for one micro-batch.

    Attributes:
        sum: scalar with gradient, nats summed over the scored tokens (the caller divides, see training/).
        tokens: how many tokens were scored.
        extra: further scalars to be minimised or logged, summed over tokens, by name.
    """

    sum: Tensor
    tokens: int
    extra: Mapping[str, Tensor] = field(default_factory=dict)

    def of_nothing(self) -> Losses:
        """As if no sentence had been there: no loss, and a gradient of zeros."""
        return Losses(self.sum * 0, 0, {name: value * 0 for name, value in self.extra.items()})


class Objective(Protocol):
    """Turns a model and a micro-batch into losses; it runs inside the model's forward."""

    def __call__(self, model: TranslationModel, batch: Batch) -> Losses:
        """The losses of one micro-batch."""
        ...


class TranslationModel(nn.Module, ABC):
    """The base of all models. `output` projects decoder states to the target vocabulary.

    Parameters are touched only inside `forward`, `start` and `step`, and where the logits of a step are asked for.
    """

    output: nn.Linear  # weight [V, D]

    @abstractmethod
    def hidden(self, source: Source, target: Target) -> Tensor:
        """Decoder states [B, T, D] of a whole target side given the true prefix (teacher forcing)."""

    @abstractmethod
    def start(self, source: Source, columns: Tensor | None = None) -> State:
        """Encode B sentences; the state has one row per sentence and nothing decoded yet.

        Args:
            source: the sentences.
            columns: [C] ids of the target pieces to which the logits are restricted, or None for all V.
        """

    @abstractmethod
    def step(self, token: Tensor, state: State) -> Step:
        """Feed one token [rows] per hypothesis (the first is `bos`) and give what decides on the next."""

    def projection(self, columns: Tensor | None) -> Callable[[Tensor], Tensor]:
        """What turns decoder states into logits: of all target pieces, or of those in `columns` [C]."""
        if columns is None:
            return self.output
        if isinstance(self.output, Int8Linear | ScreenedLinear):
            return self.output.narrowed(columns)
        weight = self.output.weight.index_select(0, columns)  # [C, D]
        bias = None if self.output.bias is None else self.output.bias.index_select(0, columns)
        return partial(F.linear, weight=weight, bias=bias)

    def recompute_layers(self) -> None:
        """From now on keep of each layer only what it was given, and compute it once more for its gradient."""
        recompute_layers(self)

    def compile_layers(self) -> None:
        """From now on train the layers as code that torch makes of them, see `layers.passage.Compiled`."""
        compile_layers(self)

    def forward(self, batch: Batch, objective: Objective) -> Losses:
        """The one door of training; losses that layers have of their own are added, see layers/tape.py."""
        with recording() as tape:
            losses = objective(self, batch)
        spoken = tape.read()
        if spoken is None:
            return losses
        figures = {name: value * losses.tokens for name, value in spoken.figures.items()}
        return Losses(losses.sum + losses.tokens * spoken.loss, losses.tokens, {**losses.extra, **figures})


@dataclass(frozen=True)
class State:
    """Everything that decoding needs besides the model.

    Attributes:
        memory: what the decoder attends to, one row per sentence.
        cache: what it has computed so far, one row per hypothesis.
        num_sentences: B.
        num_rows: B·W.
        logits: the output projection, [rows, D] -> [rows, V or C]; narrowed if there is a shortlist.
    """

    memory: Rows
    cache: Rows
    num_sentences: int
    num_rows: int
    logits: Callable[[Tensor], Tensor]

    def select_rows(self, rows: Tensor) -> State:
        """Reorder, repeat or drop hypotheses; `rows` [B·W'] keeps them grouped by sentence."""
        return replace(self, cache=self.cache.select(rows), num_rows=rows.numel())

    def keep_sentences(self, sentences: Tensor) -> State:
        """Keep the sentences [N] and all their hypotheses; the others leave the batch, and `self` is used up."""
        width = self.num_rows // self.num_sentences
        return replace(
            self,
            memory=self.memory.keep(sentences, self.num_sentences),
            cache=self.cache.keep(sentences, self.num_sentences),
            num_sentences=sentences.numel(),
            num_rows=width * sentences.numel(),
        )


class Step(NamedTuple):
    """One decoder position."""

    hidden: Tensor  # [rows, D]
    state: State
    attention: Tensor | None  # [rows, H, S], weights over the source

    def logits(self, rows: slice = slice(None)) -> Tensor:
        """Of the next piece for n rows [n, V], or [n, C] if `start` was given columns; computed here."""
        return self.state.logits(self.hidden[rows])

    def argmax(self, banned: Tensor) -> Tensor | None:
        """The column [rows] of the largest logit but for the columns `banned`, if that is found without all logits."""
        projection = self.state.logits
        return projection.argmax(self.hidden, banned) if isinstance(projection, ScreenedLinear) else None
