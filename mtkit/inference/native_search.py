"""The native model and its whole searches in the library: beam search, greedy search, sampling, given targets."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from itertools import accumulate
from threading import Event
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtkit.inference.packed_model import PackedTransformer
from mtkit.inference.packing import address, check
from mtkit.native.library import CONSTANTS, MIN_ROWS, Constraints, SamplingSettings, Task, field_names, run_together
from mtkit.search.config import SearchConfig
from mtkit.search.hypothesis import Hypothesis, ScoredToken, SearchSettings, SentenceRequest, SpecialIds
from mtkit.search.support import options

ROWS = CONSTANTS["CHUNK"]  # hypotheses in work at once
STEPS = 16  # after which signals are handled


class NativeSearch:
    """A search of a model in the library.

    Sentences leave the search when they are done, and the next ones take their places, so that the cache does not grow
    with the batch. Several threads take sentences from one list.
    """

    def __init__(self, model: PackedTransformer, settings: SearchSettings) -> None:
        self.model, self.settings = model, settings
        config, special_ids = settings.config, settings.special_ids
        self.width, self.n_best = config.num_hypotheses, config.num_kept
        self.is_sampling = config.method.is_sampling
        self.is_greedy = config.is_single_path and not self.is_sampling
        # by the fields of the structures; a single path ignores the stopping rules
        told = {"stops_early": True, "enough_ends": self.width, **options("native", config)}
        fields = field_names(Constraints)
        self._constraint_options = {name: value for name, value in told.items() if name in fields}
        self._task_options = {name: value for name, value in told.items() if name not in fields}
        self._banned = np.array([*special_ids.banned, special_ids.eos], dtype=np.int32)
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
        results = SearchResults(
            requests,
            source_lengths,
            self.n_best,
            with_attention=self.settings.with_attention,
            num_alternatives=self.settings.num_alternatives,
        )
        inputs = self._inputs(requests, states, source_lengths)
        constraints, kept = self._constraints(requests)
        sampling, sentence_ids = None, np.array([request.sentence_id for request in requests], dtype=np.int64)
        if self.is_sampling:
            names = [name for name in field_names(SamplingSettings) if name != "sentence_ids"]
            numbers = {name: getattr(self.settings.config.method, name) for name in names}
            sampling = SamplingSettings(sentence_ids=address(sentence_ids), **numbers)
        pruned = self.model.pruned if self.is_greedy and constraints is None else None
        with_log_probs = pruned is None or self.settings.with_log_probs or self.settings.num_alternatives > 0
        arrays = {**inputs, **results.arrays}
        bias = self.model.tgt_positions.of(results.arrays["tokens"].shape[2] + 1)[2]
        task = Task(
            decoder=ctypes.pointer(self.model.decoder.with_bias(bias)),
            output=ctypes.pointer(self.model.output.linear),
            pruned=None if pruned is None else ctypes.pointer(pruned.structure),
            constraints=None if constraints is None else ctypes.pointer(constraints),
            sampling=None if sampling is None else ctypes.pointer(sampling),
            **{name: address(array) for name, array in arrays.items()},
            embedding_scale=self.model.embedding_scale,
            num_banned=len(self._banned),
            bos=self.settings.special_ids.bos,
            width=self.width,
            n_best=self.n_best,
            num_sentences=len(requests),
            max_source_length=int(source_lengths.max()),
            max_length=results.arrays["tokens"].shape[2],
            num_alternatives=self.settings.num_alternatives,
            with_log_probs=with_log_probs,
            is_single_path=self.settings.config.is_single_path,
            **self._task_options,
        )
        self._run(task, len(requests))
        del kept, sentence_ids, bias  # what the decoder, the constraints and the settings of sampling point to
        if not with_log_probs:
            results.arrays["log_probs"].fill(math.nan)
            results.arrays["scores"].fill(math.nan)
        return [n_best[: self.settings.config.num_returned] for n_best in results.hypotheses()]

    def _inputs(
        self, requests: Sequence[SentenceRequest], states: NDArray[Any], source_lengths: NDArray[Any]
    ) -> dict[str, NDArray[Any] | None]:
        """The inputs of a task by name, see c/search.h."""
        max_lengths = np.array([request.max_length for request in requests], dtype=np.int32)
        min_lengths = np.array([request.min_length for request in requests], dtype=np.int32)
        longest = int(max_lengths.max())
        penalty: Any = self.settings.config.penalty()  # its arithmetic is that of arrays and tensors alike
        vectors, rotations, _ = self.model.tgt_positions.of(longest + 1)
        counts = np.arange(longest + 2, dtype=np.float32)
        return {
            "embeddings": self.model.tgt_table,
            "positions": vectors,
            "rotations": rotations,
            "banned": self._banned,
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
        texts = list(dict.fromkeys(text for request in requests for text in request.exclude))
        has_prefix = any(request.prefix for request in requests)
        if not (texts or has_prefix or any(self._constraint_options.values())):
            return None, None
        index = {text: number for number, text in enumerate(texts)}
        prefixes = IntegerLists([request.prefix for request in requests])
        excluded = IntegerLists([[index[text] for text in request.exclude] for request in requests])
        text_bytes, token_bytes = IntegerLists(texts), self._token_bytes
        constraints = Constraints(
            prefixes=address(prefixes.elements),
            first_prefix=address(prefixes.first),
            token_bytes=address(token_bytes.elements),
            first_token_byte=address(token_bytes.first),
            text_bytes=address(text_bytes.elements),
            first_text_byte=address(text_bytes.first),
            excluded_texts=address(excluded.elements),
            first_excluded=address(excluded.first),
            vocab_size=len(token_bytes.first) - 1,
            num_text_bytes=len(text_bytes.elements),
            num_free=requests[0].free_prefix,
            **self._constraint_options,
        )
        return constraints, (prefixes, excluded, text_bytes)

    def _run(self, task: ctypes.Structure, sentences: int) -> None:
        """Run a task on the model's number of threads.

        Raises:
            MemoryError: memory is exhausted.
        """
        functions = self.model.functions
        threads = min(self.model.threads, sentences, max(1, sentences * self.width // MIN_ROWS))
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


class NativeModel(PackedTransformer):
    """A Transformer that the native backend supports (see support.py), with its searches.

    A sentence has the same result, to the last bit, in every batch and with any number of threads.
    """

    def search(self, requests: Sequence[SentenceRequest], settings: SearchSettings) -> list[list[Hypothesis]]:
        """The n best hypotheses of each sentence, best first; at least one each. Errors as NativeSearch."""
        return NativeSearch(self, settings)(requests)

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


FAILED = CONSTANTS["FAILED"]


class IntegerLists:
    """Lists of integers, or texts of bytes, one after another, as the library reads them.

    Attributes:
        elements: of all lists.
        first: [lists + 1] index of the first element of each.
    """

    def __init__(self, lists: Sequence[Sequence[int]] | Sequence[bytes]) -> None:
        self.first = np.array([0, *accumulate(map(len, lists))], dtype=np.int32)
        if lists and isinstance(lists[0], bytes):
            self.elements: NDArray[Any] = np.frombuffer(b"".join(lists), dtype=np.uint8)  # type: ignore[arg-type]
        else:
            self.elements = np.array([element for each in lists for element in each], dtype=np.int32)


class SearchResults:
    """The results of B sentences, filled by the library.

    Attributes:
        arrays: by name, see c/search.h.
    """

    def __init__(
        self,
        requests: Sequence[SentenceRequest],
        source_lengths: NDArray[Any],
        n_best: int,
        *,
        with_attention: bool,
        num_alternatives: int,
    ) -> None:
        count, longest = len(requests), max(request.max_length for request in requests)
        self._shapes = [(each.max_length, int(length)) for each, length in zip(requests, source_lengths, strict=True)]
        sizes = np.array([n_best * length * source for length, source in self._shapes], dtype=np.int64)
        positions = (count, n_best, longest + 1, num_alternatives)
        self.arrays: dict[str, Any] = {
            "tokens": np.zeros((count, n_best, longest), dtype=np.int32),
            "log_probs": np.full((count, n_best, longest + 1), math.nan, dtype=np.float32),
            "scores": np.zeros((count, n_best), dtype=np.float32),
            "lengths": np.zeros((count, n_best), dtype=np.int32),
            "is_finished": np.zeros((count, n_best), dtype=np.int32),
            "counts": np.zeros(count, dtype=np.int32),
            "alternatives": np.zeros(positions, dtype=np.int32),
            "alternative_log_probs": np.zeros(positions, dtype=np.float32),
            "attention": np.zeros(int(sizes.sum()), dtype=np.float32) if with_attention else None,
            "first_attention": np.cumsum(sizes) - sizes,
        }

    def hypotheses(self) -> list[list[Hypothesis]]:
        """The hypotheses of each sentence, best first."""
        return [
            [Hypothesis.failure()] if count == FAILED else [self._hypothesis(sentence, rank) for rank in range(count)]
            for sentence, count in enumerate(self.arrays["counts"].tolist())
        ]

    def _hypothesis(self, sentence: int, rank: int) -> Hypothesis:
        arrays, at = self.arrays, (sentence, rank)
        length = int(arrays["lengths"][at])
        token_log_probs = arrays["log_probs"][at][: length + 1].tolist()
        attention, alternatives = None, []
        if arrays["attention"] is not None:
            max_length, source_length = self._shapes[sentence]
            first = int(arrays["first_attention"][sentence]) + rank * max_length * source_length
            attention = arrays["attention"][first : first + length * source_length].reshape(length, source_length)
            attention = attention.copy()  # so that it does not keep that of the batch alive
        if arrays["alternatives"].shape[3]:
            positions = (arrays[name][at][: length + 1].tolist() for name in ("alternatives", "alternative_log_probs"))
            alternatives = [
                [(token, log_prob) for token, log_prob in zip(*each, strict=True) if token >= 0]
                for each in zip(*positions, strict=True)
            ]
        return Hypothesis(
            tokens=arrays["tokens"][at][:length].tolist(),
            log_prob=math.fsum(token_log_probs),
            score=float(arrays["scores"][at]),
            token_log_probs=token_log_probs,
            finished=bool(arrays["is_finished"][at]),
            attention=attention,
            alternatives=alternatives,
        )
