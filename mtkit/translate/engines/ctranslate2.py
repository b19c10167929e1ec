"""CTranslate2 engine: exported models and their search, run by CTranslate2, with the options that it has."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from mtkit.corpus.order.batch import Source
from mtkit.errors import DataError, MissingExtraError, UsageError
from mtkit.inference.prepare import ComputeType
from mtkit.search.config import SearchConfig
from mtkit.search.interface import Hypothesis, SearchFn, SearchRequest, SpecialIds
from mtkit.search.length_penalty import LengthPenalty
from mtkit.text.tokenizer import TokenizerPair

BATCH_TOKENS = 1_024  # measured (tests/benchmarks/NOTES.md): 32 to 64 captions are its fastest batches
TYPES: dict[ComputeType, str] = {"auto": "default", "float32": "float32", "bf16": "bfloat16", "int8": "int8"}


@dataclass(frozen=True, kw_only=True)
class Threads:
    """Parallelism of CTranslate2.

    Attributes:
        inter_threads: number of batches translated in parallel.
        intra_threads: threads of each batch; 0: CTranslate2 chooses.
        batch_tokens: source tokens of a batch, into which CTranslate2 sorts and splits a request.
    """

    inter_threads: int = 1
    intra_threads: int = 0
    batch_tokens: int = BATCH_TOKENS


class CTranslate2Engine:
    """An exported model.

    Attributes:
        name: the folder.
        compute_type: the number format of the computation, by CTranslate2's name.
        device: of requests, the CPU.
    """

    can_fork = False  # it has threads

    def __init__(
        self, folder: Path, tokenizers: TokenizerPair, *, compute_type: ComputeType = "auto", threads: Threads
    ) -> None:
        """Load the model.

        Raises:
            MissingExtraError: ctranslate2 is not installed.
            UsageError: CTranslate2 does not support the compute type on this machine.
            DataError: CTranslate2 cannot read the folder.
        """
        try:
            import ctranslate2
        except ModuleNotFoundError as error:
            raise MissingExtraError("export", "ctranslate2") from error
        name = TYPES[compute_type]
        supported = ctranslate2.get_supported_compute_types("cpu")
        if name != "default" and name not in supported:
            names = ", ".join(sorted(supported))
            raise UsageError(f"CTranslate2 does not support compute type {name} on this machine; choose from: {names}")
        try:
            self._translator = ctranslate2.Translator(
                str(folder),
                device="cpu",
                compute_type=name,
                inter_threads=threads.inter_threads,
                intra_threads=threads.intra_threads,
            )
        except RuntimeError as error:
            raise DataError(f"{folder}: CTranslate2 cannot read it: {error}") from error
        self.name = str(folder)
        self.compute_type: str = self._translator.compute_type
        self.device = torch.device("cpu")
        self._threads = threads
        self._src_tokens = tokenizers.src.ids_to_tokens(range(tokenizers.src.vocab.size))
        self._tgt_tokens = tokenizers.tgt.ids_to_tokens(range(tokenizers.tgt.vocab.size))
        self._tgt_ids = {token: i for i, token in enumerate(self._tgt_tokens)}
        self._eos, self._unk = tokenizers.src.vocab.eos, tokenizers.tgt.vocab.unk

    def make_search(self, search: SearchConfig, special_ids: SpecialIds, *, with_scores: bool) -> SearchFn:
        """See Engine.

        Raises:
            UsageError: names the key for whose value CTranslate2 has no option.
        """
        if search.method.seed is not None:
            import ctranslate2

            ctranslate2.set_random_seed(search.method.seed)
        options = search_options(search) | {
            "disable_unk": self._unk in special_ids.banned,
            "suppress_sequences": [[self._tgt_tokens[i]] for i in special_ids.banned if i != self._unk],
            "return_scores": True,
            "return_attention": with_scores,
            "max_input_length": 0,
        }
        return _CTranslate2Search(
            self, options, search.penalty(), with_scores, search.num_returned, cuttable=search.beam_size == 1
        )

    def source_tokens(self, source: Source) -> list[list[str]]:
        """The tokens of each sentence without the end of sentence, which the model adds itself."""
        rows = [ids[real].tolist() for ids, real in zip(source.ids, source.real, strict=True)]
        return [[self._src_tokens[i] for i in row if i != self._eos] for row in rows]

    def target_ids(self, tokens: Sequence[str]) -> list[int]:
        """The ids of target tokens."""
        return [self._tgt_ids[token] for token in tokens]

    def translate(self, sources: Sequence[Sequence[str]], **options: Any) -> list[Any]:
        """CTranslate2's results for some sentences, translated in parallel.

        Raises:
            DataError: a sentence is longer than the exported position table.
        """
        with _explain_position_errors():
            results: list[Any] = self._translator.translate_batch(
                sources, max_batch_size=self._threads.batch_tokens, batch_type="tokens", **options
            )
        return results

    def log_probs(self, sources: Sequence[Sequence[str]], targets: Sequence[Sequence[str]]) -> list[list[float]]:
        """Log-probability of each target token and, last, of the end of sentence."""
        with _explain_position_errors():
            scores = self._translator.score_batch(sources, targets, max_input_length=0)
        return [list(score.log_probs) for score in scores]


@contextmanager
def _explain_position_errors() -> Iterator[None]:
    """Raise a DataError where a sentence exceeds the position table of an exported model."""
    try:
        yield
    except RuntimeError as error:
        if "position encodings" not in str(error):
            raise
        raise DataError(
            f"a sentence is longer than the exported position table: {str(error).lower()}; lower search.max_length, or "
            "use the model folder, not the exported model"
        ) from error


@dataclass(frozen=True)
class _CTranslate2Search:
    """A search with fixed options."""

    engine: CTranslate2Engine
    options: dict[str, Any]
    penalty: LengthPenalty
    with_scores: bool
    n_best: int
    cuttable: bool  # what is beyond a limit can be cut off: in a beam, the limit decides which hypotheses win

    def __call__(self, request: SearchRequest) -> list[list[Hypothesis]]:
        """The n best hypotheses of each sentence, best first."""
        if request.shortlist_ids is not None or request.constraints:
            raise UsageError(
                "CTranslate2 supports neither a shortlist nor constraints; use the model folder and --engine torch, "
                "not the exported model"
            )
        sources = self.engine.source_tokens(request.source)
        max_lengths, min_lengths = request.max_length.tolist(), request.min_length.tolist()
        results: list[Any] = [None] * len(sources)
        # CTranslate2 has one pair of limits for a batch: first the widest for all sentences, then a sentence's own for
        # each whose result exceeds them, unless it can be cut.
        everything = list(range(len(sources)))
        self._run(sources, results, everything, max(max_lengths, default=0), min(min_lengths, default=0))
        for i, result in enumerate(results):
            lengths = [len(tokens) for tokens in result.hypotheses]
            too_long = max(lengths) > max_lengths[i] and not self.cuttable
            if too_long or min(lengths) < min(min_lengths[i], max_lengths[i]):
                self._run(sources, results, [i], max_lengths[i], min_lengths[i])
        return [
            self._hypotheses(source, result, max_length)
            for source, result, max_length in zip(sources, results, max_lengths, strict=True)
        ]

    def _run(
        self,
        sources: Sequence[Sequence[str]],
        results: list[Any],
        indices: Sequence[int],
        max_length: int,
        min_length: int,
    ) -> None:
        """Translate the sentences with these indices and store their results."""
        new = self.engine.translate(
            [sources[i] for i in indices],
            max_decoding_length=max_length + 1,  # CTranslate2 counts the end of sentence
            min_decoding_length=min(max_length, min_length),
            **self.options,
        )
        for i, result in zip(indices, new, strict=True):
            results[i] = result

    def _hypotheses(self, source: Sequence[str], result: Any, max_length: int) -> list[Hypothesis]:
        """The hypotheses of a sentence, scored by CTranslate2 if log-probabilities are requested."""
        targets = [tokens[:max_length] for tokens in result.hypotheses]
        log_probs = [[math.nan] * (len(target) + 1) for target in targets]
        if self.with_scores:
            log_probs = self.engine.log_probs([source] * len(targets), targets)
        hypotheses = []
        for i, (target, token_log_probs) in enumerate(zip(targets, log_probs, strict=True)):
            total, score = math.fsum(token_log_probs), result.scores[i]
            if self.with_scores:
                score = float(self.penalty.score(torch.tensor(total), torch.tensor(len(token_log_probs))))
            attention = None
            if self.with_scores:
                rows = result.attention[i][: len(target)]
                attention = torch.tensor(rows) if rows else torch.zeros(0, len(source))
            hypotheses.append(
                Hypothesis(
                    tokens=self.engine.target_ids(target),
                    log_prob=total,
                    score=score,
                    token_log_probs=token_log_probs,
                    finished=len(target) < max_length,
                    attention=attention,
                    failed=not result.scores[i] < math.inf,  # NaN or +inf
                )
            )
        return hypotheses[: self.n_best]


def search_options(search: SearchConfig) -> dict[str, Any]:
    """Options of `translate_batch` for a search configuration.

    Raises:
        UsageError: names the key for whose value CTranslate2 has no option.
    """
    length_penalty = search.penalty().ctranslate2_length_penalty
    unsupported = {
        "length_penalty.kind": length_penalty is None,
        "coverage_penalty": search.coverage_penalty != 0,
        "repetition_penalty": search.repetition_penalty != 1,
        search.method.ctranslate2_unsupported_key: search.method.ctranslate2_unsupported_key is not None,
    }
    for key, is_unsupported in unsupported.items():
        if is_unsupported:
            raise UsageError(
                f"search.{key}: CTranslate2 has no option for this value; leave it out, or use the model folder, not "
                "the exported model"
            )
    options: dict[str, Any] = {
        "beam_size": search.beam_size,
        "num_hypotheses": search.num_returned,
        "patience": search.patience,
        "length_penalty": length_penalty,
        "no_repeat_ngram_size": search.no_repeat_ngram,
    }
    return options | search.method.ctranslate2_options()
