"""The fast model and its whole searches in the native library: beam search, greedy search, sampling, given targets."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from threading import Event
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtkit.inference.packed_model import PackedTransformer
from mtkit.inference.packing import address, check
from mtkit.inference.search_arrays import IntegerLists, SearchResults
from mtkit.inference.structures import CONSTANTS, Constraints, SamplingSettings, Task, field_names
from mtkit.inference.threads import MIN_ITEMS, run_together
from mtkit.search.config import SamplingConfig, SearchConfig
from mtkit.search.hypothesis import Hypothesis, ScoredToken, SearchSettings, SentenceRequest, SpecialIds
from mtkit.search.support import options

ROWS = CONSTANTS["CHUNK"]  # hypotheses in work at once
STEPS = 16  # after which signals are handled


class FastSearch:
    """A search of a model in the library.

    Sentences leave the search when they are done, and the next ones take their places, so that the cache does not grow
    with the batch. Several threads take sentences from one list.
    """

    def __init__(self, model: PackedTransformer, settings: SearchSettings) -> None:
        self.model, self.settings = model, settings
        config, special_ids = settings.config, settings.special_ids
        self.width, self.n_best = config.num_hypotheses, config.num_kept
        self.is_sampling = isinstance(config.method, SamplingConfig)
        self.is_greedy = config.is_single_path and not self.is_sampling
        # by the fields of the structures; a single path ignores the stopping rules
        told = {"stops_early": True, "enough_ends": self.width, **options("native", config)}
        fields = field_names(Constraints)
        self._constraint_options = {name: value for name, value in told.items() if name in fields}
        self._task_options = {name: value for name, value in told.items() if name not in fields}
        self._excluded = np.array([*special_ids.banned, special_ids.eos], dtype=np.int32)
        self._token_bytes = IntegerLists(settings.token_bytes)

    def __call__(self, requests: Sequence[SentenceRequest]) -> list[list[Hypothesis]]:
        """The n best hypotheses of each sentence, best first; at least one each.

        Raises:
            DataError: a sentence is longer than the learned positions.
            MemoryError: memory is exhausted.
        """
        if not self.is_greedy:
            return self._search(requests)
        # apart, since constraints change the logits of the compute type, while the token of a free sentence is the one
        # with the largest logit in float32, also beside sentences with constraints
        free, constrained = (
            iter(self._search([request for request in requests if request.is_constrained == flag]))
            for flag in (False, True)
        )
        return [next(constrained if request.is_constrained else free) for request in requests]

    def _search(self, requests: Sequence[SentenceRequest]) -> list[list[Hypothesis]]:
        if not requests:
            return []
        states, source_lengths = self.model.encode([request.source for request in requests])
        results = SearchResults.empty(
            requests,
            source_lengths,
            self.n_best,
            with_attention=self.settings.with_attention,
            num_alternatives=self.settings.num_alternatives,
        )
        inputs = self._inputs(requests, states, source_lengths)
        constraints, kept = self._constraints(requests)
        sampling = self._sampling(requests)
        pruned = self.model.pruned if self.is_greedy and constraints is None else None
        with_log_probs = pruned is None or self.settings.with_log_probs or self.settings.num_alternatives > 0
        arrays = {**inputs, **results.arrays()}
        task = Task(
            decoder=ctypes.pointer(self.model.decoder.structure),
            output=ctypes.pointer(self.model.output.linear),
            pruned=None if pruned is None else ctypes.pointer(pruned.structure),
            constraints=None if constraints is None else ctypes.pointer(constraints),
            sampling=None if sampling is None else ctypes.pointer(sampling[0]),
            **{name: address(array) for name, array in arrays.items()},
            embedding_scale=self.model.embedding_scale,
            num_excluded=len(self._excluded),
            bos=self.settings.special_ids.bos,
            width=self.width,
            n_best=self.n_best,
            num_sentences=len(requests),
            max_source_length=int(source_lengths.max()),
            max_length=results.tokens.shape[2],
            num_alternatives=self.settings.num_alternatives,
            with_log_probs=with_log_probs,
            is_single_path=self.settings.config.is_single_path,
            **self._task_options,
        )
        self._run(task, len(requests))
        del kept  # what the constraints point to
        if not with_log_probs:
            results.log_probs.fill(math.nan)
            results.scores.fill(math.nan)
        return [n_best[: self.settings.config.num_returned] for n_best in results.hypotheses()]

    def _inputs(
        self, requests: Sequence[SentenceRequest], states: NDArray[Any], source_lengths: NDArray[Any]
    ) -> dict[str, NDArray[Any] | None]:
        """The inputs of a task by name, see c/search.h."""
        max_lengths = np.array([request.max_length for request in requests], dtype=np.int32)
        min_lengths = np.array([request.min_length for request in requests], dtype=np.int32)
        longest = int(max_lengths.max())
        penalty: Any = self.settings.config.penalty()  # its arithmetic is that of arrays and tensors alike
        vectors, rotations = self.model.tgt_positions.of(longest + 1)
        counts = np.arange(longest + 2, dtype=np.float32)
        return {
            "embeddings": self.model.tgt_table,
            "positions": vectors,
            "rotations": rotations,
            "excluded": self._excluded,
            "divisors": np.asarray(penalty.divisor(counts), dtype=np.float32),
            "summands": np.asarray(penalty.summand(counts), dtype=np.float32),
            "states": states,
            "first_states": np.cumsum(source_lengths, dtype=np.int64) - source_lengths,
            "source_lengths": source_lengths,
            "max_lengths": max_lengths,
            "min_lengths": np.minimum(min_lengths, max_lengths),
        }

    def _constraints(self, requests: Sequence[SentenceRequest]) -> tuple[ctypes.Structure | None, Any]:
        """The constraints on a batch, and the memory that they point to; None: there are none."""
        texts = list(dict.fromkeys(text for request in requests for text in request.forbidden))
        has_prefix = any(request.prefix for request in requests)
        if not (texts or has_prefix or any(self._constraint_options.values())):
            return None, None
        index = {text: number for number, text in enumerate(texts)}
        prefixes = IntegerLists([request.prefix for request in requests])
        forbidden = IntegerLists([[index[text] for text in request.forbidden] for request in requests])
        text_bytes, token_bytes = IntegerLists(texts), self._token_bytes
        constraints = Constraints(
            prefixes=address(prefixes.elements),
            first_prefix=address(prefixes.first),
            token_bytes=address(token_bytes.elements),
            first_token_byte=address(token_bytes.first),
            text_bytes=address(text_bytes.elements),
            first_text_byte=address(text_bytes.first),
            forbidden_texts=address(forbidden.elements),
            first_forbidden=address(forbidden.first),
            vocab_size=len(token_bytes.first) - 1,
            num_text_bytes=len(text_bytes.elements),
            num_free=requests[0].free_prefix,
            **self._constraint_options,
        )
        return constraints, (prefixes, forbidden, text_bytes)

    def _sampling(self, requests: Sequence[SentenceRequest]) -> tuple[ctypes.Structure, Any] | None:
        """The settings of sampling, and the memory that they point to; None: it is another search."""
        method: Any = self.settings.config.method
        if not self.is_sampling:
            return None
        ids = np.array([request.sentence_id for request in requests], dtype=np.int64)
        numbers = {name: getattr(method, name) for name in field_names(SamplingSettings) if name != "sentence_ids"}
        return SamplingSettings(sentence_ids=address(ids), **numbers), ids

    def _run(self, task: ctypes.Structure, sentences: int) -> None:
        """Run a task on the model's number of threads.

        Raises:
            MemoryError: memory is exhausted.
        """
        functions = self.model.functions
        threads = min(self.model.threads, sentences, max(1, sentences * self.width // MIN_ITEMS))
        places = max(1, min(ROWS // self.width, -(-sentences // threads)))
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


class FastModel(PackedTransformer):
    """A Transformer that the fast road takes (see served.py), with its searches.

    A sentence has the same result, to the last bit, in every batch and with any number of threads.
    """

    def search(self, requests: Sequence[SentenceRequest], settings: SearchSettings) -> list[list[Hypothesis]]:
        """The n best hypotheses of each sentence, best first; at least one each. Errors as FastSearch."""
        return FastSearch(self, settings)(requests)

    def score(
        self, pairs: Sequence[tuple[Sequence[int], Sequence[int]]], special_ids: SpecialIds
    ) -> list[list[ScoredToken]]:
        """Scores of the tokens of given targets and of their ends: those of a search with the target as its prefix.

        Args:
            pairs: ids of source and target; the end of sentence is included in the source only.
            special_ids: ids with a meaning.

        Raises:
            DataError: a sentence is longer than the learned positions.
            MemoryError: memory is exhausted.
        """
        settings = SearchSettings(config=SearchConfig(beam_size=1), special_ids=special_ids, num_alternatives=1)
        requests = [SentenceRequest(source=source, max_length=len(target), prefix=target) for source, target in pairs]
        scores = []
        for (_, target), (hypothesis, *_) in zip(pairs, self.search(requests, settings), strict=True):
            if hypothesis.failed:
                scores.append([ScoredToken(math.nan, math.nan)] * (len(target) + 1))
                continue
            best = (position[0][1] for position in hypothesis.alternatives)
            scores.append([ScoredToken(*each) for each in zip(hypothesis.token_log_probs, best, strict=True)])
        return scores
