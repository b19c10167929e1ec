"""Interface of translation models: one `forward` for training, `start` and `step` for search, and the decoder state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeVar

from torch import Tensor, nn

from mtkit.corpus.order.batch import Batch, Source, Target
from mtkit.layers.cache import BatchedState
from mtkit.layers.layer_call import CompiledCall, LayerStack, checkpointed, collect_aux_losses

C = TypeVar("C", bound=BatchedState)
M = TypeVar("M", bound=BatchedState)


@dataclass(frozen=True)
class Losses:
    """Losses of one micro-batch.

    Attributes:
        sum: scalar with gradient, nats summed over the scored tokens (the caller divides, see training/).
        tokens: number of scored tokens.
        extra: further scalars to be logged, summed over tokens, by name.
    """

    sum: Tensor
    tokens: int
    extra: Mapping[str, Tensor] = field(default_factory=dict)

    def zeroed(self) -> Losses:
        """The losses of an empty micro-batch: no tokens, and a gradient of zeros for every parameter used."""
        return Losses(self.sum * 0, 0, {name: value * 0 for name, value in self.extra.items()})


# Losses of one micro-batch, computed inside the model's forward: `sum` is minimised, `extra` is logged. See
# TrainingObjective in training/objectives/interface.py.
Objective = Callable[["TranslationModel", Batch], Losses]


class TranslationModel(nn.Module, ABC):
    """Base of all models.

    Parameters are used only inside `forward`, `start`, `step` and the output projection of a state.

    Attributes:
        output: projection from decoder states to the target vocabulary, weight [V, D].
    """

    output: nn.Linear

    @abstractmethod
    def decode_states(self, source: Source, target: Target) -> Tensor:
        """Decoder states [B, T, D] of the whole target side, each given the reference prefix (teacher forcing)."""

    @abstractmethod
    def start(self, source: Source) -> State:
        """Encode B sentences; the state has one row per sentence and no decoded tokens."""

    @abstractmethod
    def step(self, token: Tensor, state: State) -> Step:
        """Decode one position: feed one token [rows] per hypothesis (first `bos`)."""

    def checkpoint_layers(self) -> None:
        """Turn on activation checkpointing for every layer."""
        for module in self.modules():
            if isinstance(module, LayerStack):
                module.call_layer = checkpointed

    def compile_layers(self, backend: str = "inductor") -> None:
        """Turn on `torch.compile` for every layer in training; each is compiled when it is first called."""
        for module in self.modules():
            if isinstance(module, LayerStack):
                module.call_layer = CompiledCall(module.call_layer, backend)

    def forward(self, batch: Batch, objective: Objective) -> Losses:
        """The only entry point of training; adds auxiliary losses of layers (see layers/layer_call.py)."""
        with collect_aux_losses() as aux_losses:
            losses = objective(self, batch)
        total = aux_losses.total()
        if total is None:
            return losses
        aux_loss, means = total
        metrics = {name: value * losses.tokens for name, value in means.items()}
        return Losses(losses.sum + losses.tokens * aux_loss, losses.tokens, {**losses.extra, **metrics})


@dataclass(frozen=True)
class State:
    """Decoder state between two steps.

    `step` and `select_rows` return a new state and leave this one valid. `keep_sentences` reuses its memory: it is
    move-only there, and only the returned state may be used.

    Attributes:
        memory: what the decoder attends to, one row per sentence; shared by the hypotheses, never copied for a beam.
        cache: state of the decoder's layers, one row per hypothesis.
        num_sentences: B.
        num_rows: B·W; the hypotheses of sentence b are the rows b·W ... b·W + W - 1.
        output_projection: [rows, D] -> [rows, V].
    """

    memory: BatchedState
    cache: BatchedState
    num_sentences: int
    num_rows: int
    output_projection: Callable[[Tensor], Tensor]

    def parts(self, cache: type[C], memory: type[M]) -> tuple[C, M]:
        """Return cache and memory, for a model that knows their classes.

        Raises:
            ValueError: the state of another model.
        """
        if not isinstance(self.cache, cache) or not isinstance(self.memory, memory):
            raise ValueError(f"state of another model: {type(self.cache).__name__}, {type(self.memory).__name__}")
        return self.cache, self.memory

    def select_rows(self, rows: Tensor) -> State:
        """Reorder, repeat or drop hypotheses; `rows` [B·W'] must keep them grouped by sentence."""
        cache = self.cache.index_select(rows)
        return State(self.memory, cache, self.num_sentences, rows.numel(), self.output_projection)

    def keep_sentences(self, sentences: Tensor) -> State:
        """Keep the sentences [N] with all their hypotheses, in this order.

        `self` must not be used afterwards: rows are moved within the same memory (see BatchedState.compact_).
        """
        width = self.num_rows // self.num_sentences
        return replace(
            self,
            memory=self.memory.compact_(sentences, self.num_sentences),
            cache=self.cache.compact_(sentences, self.num_sentences),
            num_sentences=sentences.numel(),
            num_rows=width * sentences.numel(),
        )


class Step(NamedTuple):
    """One decoder position of every hypothesis."""

    hidden: Tensor  # [rows, D]
    state: State
    attention: Tensor | None  # [rows, H, S], weights over the source

    def logits(self, rows: slice = slice(None)) -> Tensor:
        """Logits of the next token of n rows, [n, V]; computed by this call."""
        return self.state.output_projection(self.hidden[rows])

    def language_model_log_probs(self, rows: slice) -> None:
        """Log-probabilities of a language model beside this model: there is none."""
