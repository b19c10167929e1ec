"""Whole searches in the native library: beam search and greedy search with continuous batching (see c/search.h)."""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass
from functools import partial
from threading import Event
from typing import Any, TypeGuard

import torch
from torch import Tensor

from mtkit.inference.native.model import NativeTransformer
from mtkit.inference.native.output import NativeOutput
from mtkit.inference.native.packing import address, check
from mtkit.inference.native.structures import Task
from mtkit.inference.native.threads import MIN_ITEMS, run_together
from mtkit.layers.positions.base import Position
from mtkit.layers.positions.learned import Learned
from mtkit.layers.positions.sinusoidal import Sinusoidal
from mtkit.models.transformer.model import Embedding
from mtkit.search.beam.beam import BeamSearch
from mtkit.search.beam.selection import TopExtensions
from mtkit.search.interface import Hypothesis, SearchFn, SearchRequest, Stepper
from mtkit.search.length_penalty import GNMT, Average, WordReward
from mtkit.search.run import Search
from mtkit.search.single_path import SinglePathSearch, argmax

ROWS = 96  # hypotheses in work at once: CHUNK in c/layers.h
STEPS = 16  # after which signals are handled
FAILED = -1  # as in c/search.h
PENALTIES = (Average, GNMT, WordReward)
POSITIONS = (Position, Sinusoidal, Learned)  # that add a vector to the embeddings, or nothing


def bind_search(search: Search, stepper: Stepper) -> SearchFn:
    """The search of a model, as a function of the request.

    A native model runs plain beam search and greedy search in the library. Other searches, such as those with
    constraints or attention, take one step after another. Both give the same hypotheses, except for greedy search below
    the minimum length: the library takes the best token of float32 weights, the steps that of the packed ones.
    """
    if not isinstance(stepper, NativeTransformer) or not _is_plain(search):
        return partial(search, stepper)
    native = NativeSearch(stepper, search)
    return lambda request: native(request) if native.serves(request) else search(stepper, request)


def _is_plain(search: Search) -> TypeGuard[BeamSearch | SinglePathSearch]:
    """Return whether the library has this search."""
    if isinstance(search, BeamSearch):
        is_plain = type(search.selector) is TopExtensions and search.parts.coverage is None
    elif isinstance(search, SinglePathSearch):
        is_plain = search.choose is argmax and search.num_paths == 1
    else:
        return False
    parts = search.parts
    return is_plain and type(parts.length_penalty) in PENALTIES and not (parts.constraints or parts.with_attention)


class NativeSearch:
    """A plain search in the library.

    Sentences leave the search when they are done, and the next ones take their places, so that the cache does not grow
    with the batch. Several threads take sentences from one list.

    Attributes:
        parts: settings of the search.
        width: hypotheses of a sentence.
        is_greedy: no log-probabilities are needed, and one hypothesis is followed.
    """

    def __init__(self, model: NativeTransformer, search: BeamSearch | SinglePathSearch) -> None:
        """Take a search for which `_is_plain` holds."""
        self.model, self.parts = model, search.parts
        is_beam = isinstance(search, BeamSearch)
        self.width = search.parts.beam_size if is_beam else 1
        self.patience = search.parts.patience if is_beam else 1.0
        self.is_greedy = not is_beam and not search.parts.with_log_probs
        self.is_sum = _is_sum(model.tgt_embedding)
        self._tables = self._position_tables(0)

    def serves(self, request: SearchRequest) -> bool:
        """Return whether the library has the embeddings of the model and all that the request asks for."""
        position = self.model.tgt_embedding.position
        if not request.num_sentences or not self.is_sum or request.constraints or request.selector is not None:
            return False
        return not isinstance(position, Learned) or int(request.max_length.max()) < position.num_positions

    @torch.inference_mode()
    def __call__(self, request: SearchRequest) -> list[list[Hypothesis]]:
        """The n best hypotheses of each sentence, best first; at least one each."""
        states, lengths = self.model.encoder_states(request.source)
        results = _Results.empty(request, min(self.parts.n_best, self.width))
        tensors = self._tensors(request, states, lengths)
        output = self.model.output_projection()
        if not isinstance(output, NativeOutput):
            raise ValueError(f"output projection of another model: {type(output).__name__}")
        pruned = output.pruned if self.is_greedy else None
        table = self.model.tgt_embedding.table
        task = Task(
            decoder=ctypes.pointer(self.model.native_decoder.structure),
            output=ctypes.pointer(output.packed.linear),
            pruned=None if pruned is None else ctypes.pointer(pruned.structure),
            **{name: address(tensor) for name, tensor in {**tensors, **vars(results)}.items()},
            embedding_scale=math.sqrt(table.embedding_dim),
            enough_ends=self.patience * self.width,
            num_excluded=tensors["excluded"].numel(),
            bos=self.parts.special_ids.bos,
            width=self.width,
            n_best=results.scores.size(1),
            num_sentences=request.num_sentences,
            max_source_length=int(lengths.max()),
            max_length=results.tokens.size(2),
        )
        self._run(task, request.num_sentences)
        if self.is_greedy:  # without 8-bit products the library searches a beam of one, which has log-probabilities
            results.log_probs.fill_(math.nan)
            results.scores.fill_(math.nan)
        return results.hypotheses()

    def _tensors(self, request: SearchRequest, states: Tensor, lengths: Tensor) -> dict[str, Tensor]:
        """The inputs of a task by name, see c/search.h."""
        model, penalty, special_ids = self.model, self.parts.length_penalty, self.parts.special_ids
        longest = int(request.max_length.max())
        counts = torch.arange(longest + 2)
        if self._tables.count <= longest:
            self._tables = self._position_tables(longest + 1)
        tensors = {
            "embeddings": model.tgt_embedding.table.weight,
            "positions": self._tables.vectors,
            "rotations": self._tables.rotations,
            "excluded": torch.tensor([*special_ids.banned, special_ids.eos], dtype=torch.int32),
            "divisors": penalty.divisor(counts),
            "summands": penalty.summand(counts),
            "states": states,
            "first_states": lengths.cumsum(0) - lengths,
            "source_lengths": lengths.int(),
            "max_lengths": request.max_length.int(),
            "min_lengths": torch.minimum(request.min_length, request.max_length).int(),
        }
        return {name: tensor.contiguous() for name, tensor in tensors.items() if tensor is not None}

    def _position_tables(self, count: int) -> _PositionTables:
        """The tables of this many positions; computed once for all translations that are not longer."""
        embedding, pos = self.model.tgt_embedding, torch.arange(count)
        vectors = None if type(embedding.position) is Position else _position_vectors(embedding, pos)
        return _PositionTables(count, vectors, self.model.native_decoder.rotations(pos))

    def _run(self, task: Task, sentences: int) -> None:
        """Run a task on torch's number of threads.

        Raises:
            RuntimeError: memory is exhausted.
        """
        threads = min(torch.get_num_threads(), sentences, max(1, sentences * self.width // MIN_ITEMS))
        places = max(1, min(ROWS // self.width, -(-sentences // threads)))
        functions: Any = self.model.functions
        is_stopped = Event()

        def work() -> None:
            handle, remain = None, -1
            try:
                handle = functions.mtkit_search_begin(ctypes.byref(task), places)
                remain = -1 if handle is None else 1
                while remain == 1 and not is_stopped.is_set():
                    remain = functions.mtkit_search_run(handle, STEPS)
            finally:
                if remain:  # an error or an interruption, which ends the work of the other threads too
                    is_stopped.set()
                functions.mtkit_search_end(handle)
            check(remain >= 0)

        run_together([work] * threads, is_stopped.set)


@dataclass(frozen=True)
class _PositionTables:
    """Vectors [count, D] that the first positions add to embeddings, and their rotations [count, K], or None."""

    count: int
    vectors: Tensor | None
    rotations: Tensor | None


def _position_vectors(embedding: Embedding, pos: Tensor) -> Tensor:
    """The vectors that the positions [T] add to embeddings, [T, D]."""
    zeros = embedding.table.weight.new_zeros(1, pos.numel(), embedding.table.embedding_dim)
    return embedding.position.embed(zeros, pos.unsqueeze(0)).squeeze(0)


def _is_sum(embedding: Embedding) -> bool:
    """Return whether an embedding is the scaled vector of the token plus a vector of the position, as in the library.

    A changed embedding is therefore never overridden.
    """
    if type(embedding.position) not in POSITIONS:
        return False
    table = embedding.table
    ids, pos = torch.arange(min(4, table.num_embeddings)), torch.arange(1)
    expected = embedding(ids.unsqueeze(1), pos.expand(len(ids), 1)).squeeze(1)  # [N, D]
    found = table.weight[ids] * math.sqrt(table.embedding_dim) + _position_vectors(embedding, pos)
    return torch.allclose(found, expected)


@dataclass(frozen=True)
class _Results:
    """The results of B sentences, filled by the library; see c/search.h.

    Attributes:
        tokens: [B, n_best, L] int32.
        log_probs: [B, n_best, L + 1], of each token and of the end of sentence.
        scores: [B, n_best].
        lengths: [B, n_best] int32, tokens.
        is_finished: [B, n_best] int32.
        counts: [B] int32, number of results; FAILED: the model computed NaN or infinity.
    """

    tokens: Tensor
    log_probs: Tensor
    scores: Tensor
    lengths: Tensor
    is_finished: Tensor
    counts: Tensor

    @classmethod
    def empty(cls, request: SearchRequest, n_best: int) -> _Results:
        """Results that are still to be filled."""
        shape, longest = (request.num_sentences, n_best), int(request.max_length.max())
        lengths, is_finished = torch.zeros(2, *shape, dtype=torch.int32).unbind()
        return cls(
            tokens=torch.zeros(*shape, longest, dtype=torch.int32),
            log_probs=torch.full((*shape, longest + 1), math.nan),
            scores=torch.zeros(shape),
            lengths=lengths,
            is_finished=is_finished,
            counts=torch.zeros(request.num_sentences, dtype=torch.int32),
        )

    def hypotheses(self) -> list[list[Hypothesis]]:
        """The hypotheses of each sentence, best first."""
        counts, lengths, scores = self.counts.tolist(), self.lengths.tolist(), self.scores.tolist()
        is_finished, tokens, log_probs = self.is_finished.tolist(), self.tokens.numpy(), self.log_probs.numpy()

        def hypothesis(sentence: int, rank: int) -> Hypothesis:
            length = lengths[sentence][rank]
            token_log_probs = log_probs[sentence, rank, : length + 1].tolist()
            return Hypothesis(
                tokens=tokens[sentence, rank, :length].tolist(),
                log_prob=math.fsum(token_log_probs),
                score=scores[sentence][rank],
                token_log_probs=token_log_probs,
                finished=bool(is_finished[sentence][rank]),
            )

        return [
            [Hypothesis.failure()] if count == FAILED else [hypothesis(sentence, rank) for rank in range(count)]
            for sentence, count in enumerate(counts)
        ]
