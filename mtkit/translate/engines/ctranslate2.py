"""CTranslate2 as an engine: it searches by itself, among the options that it has."""

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
from mtkit.search.config import BeamConfig, SearchConfig
from mtkit.search.interface import Hypothesis, Request, Symbols
from mtkit.search.length_penalty import Average, LengthPenalty
from mtkit.search.sampling import SamplingConfig
from mtkit.text.tokenizer import TokenizerPair
from mtkit.translate.compute_type import ComputeType
from mtkit.translate.engines.interface import Find

TYPES: dict[ComputeType, str] = {"auto": "default", "float32": "float32", "bf16": "bfloat16", "int8": "int8"}


@dataclass(frozen=True, kw_only=True)
class Threads:
    """How CTranslate2 shares work out.

    Attributes:
        workers: batches at a time.
        each: threads of a batch; 0: its own choice.
        batch_tokens: source pieces of a batch, into which it cuts what it is given; None: as many batches as workers.
    """

    workers: int = 1
    each: int = 0
    batch_tokens: int | None = None


class CTranslate2Engine:
    """An exported model.

    Attributes:
        compute_type: the numbers that it computes with, by CTranslate2's name.
        device: of requests, the CPU.
    """

    def __init__(
        self, folder: Path, tokenizers: TokenizerPair, *, compute_type: ComputeType = "auto", threads: Threads
    ) -> None:
        """Load the model.

        Raises:
            MissingExtraError: ctranslate2 is not installed.
            UsageError: it cannot compute with these numbers here.
            DataError: it cannot read the folder.
        """
        try:
            import ctranslate2
        except ModuleNotFoundError as error:
            raise MissingExtraError("export", "ctranslate2") from error
        wanted = TYPES[compute_type]
        known = ctranslate2.get_supported_compute_types("cpu")
        if wanted != "default" and wanted not in known:
            raise UsageError(f"CTranslate2 does not compute with {wanted} here; it can: {', '.join(sorted(known))}")
        try:
            self._translator = ctranslate2.Translator(
                str(folder),
                device="cpu",
                compute_type=wanted,
                inter_threads=threads.workers,
                intra_threads=threads.each,
            )
        except RuntimeError as error:
            raise DataError(f"{folder}: CTranslate2 cannot read it: {error}") from error
        self.compute_type: str = self._translator.compute_type
        self.device = torch.device("cpu")
        self._threads = threads
        self._names = [tokenizers.src.pieces(range(tokenizers.src.vocab.size))]
        self._names.append(tokenizers.tgt.pieces(range(tokenizers.tgt.vocab.size)))
        self._ids = {name: number for number, name in enumerate(self._names[1])}
        self._eos, self._unk = tokenizers.src.vocab.eos, tokenizers.tgt.vocab.unk

    def finder(self, search: SearchConfig, symbols: Symbols, *, details: bool) -> Find:
        """See Engine.

        Raises:
            UsageError: names the key that CTranslate2 has no option for.
        """
        if isinstance(search.method, SamplingConfig):
            import ctranslate2

            ctranslate2.set_random_seed(search.method.seed)
        unknown = self._unk
        options = _options(search) | {
            "disable_unk": unknown in symbols.banned,
            "suppress_sequences": [[self._names[1][i]] for i in symbols.banned if i != unknown],
            "return_scores": True,
            "return_attention": details,
            "max_input_length": 0,
        }
        return _Finder(self, options, search.penalty(), details, search.candidates)

    def sources(self, source: Source) -> list[list[str]]:
        """The pieces of each sentence by name, without the end of sentence, which the model adds itself."""
        rows = [ids[real].tolist() for ids, real in zip(source.ids, source.real, strict=True)]
        return [[self._names[0][i] for i in row if i != self._eos] for row in rows]

    def ids(self, names: Sequence[str]) -> list[int]:
        """Target pieces by name -> ids."""
        return [self._ids[name] for name in names]

    def translate(self, sources: Sequence[Sequence[str]], **options: Any) -> list[Any]:
        """CTranslate2's results; the sentences are dealt to all workers.

        Raises:
            DataError: a sentence is longer than the positions that were exported.
        """
        size, kind = math.ceil(len(sources) / self._threads.workers), "examples"
        if self._threads.batch_tokens is not None:
            size, kind = self._threads.batch_tokens, "tokens"
        with _within_positions():
            results: list[Any] = self._translator.translate_batch(
                sources, max_batch_size=size, batch_type=kind, **options
            )
        return results

    def log_probs(self, sources: Sequence[Sequence[str]], targets: Sequence[Sequence[str]]) -> list[list[float]]:
        """Of each target piece and, last, of the end of sentence."""
        with _within_positions():
            scores = self._translator.score_batch(sources, targets, max_input_length=0)
        return [list(score.log_probs) for score in scores]


@contextmanager
def _within_positions() -> Iterator[None]:
    """Positions are tabulated in an exported model, and a sentence that goes beyond the table is an error."""
    try:
        yield
    except RuntimeError as error:
        if "position encodings" not in str(error):
            raise
        raise DataError(
            f"a sentence is longer than the positions that were exported: {str(error).lower()}; lower "
            "search.max_length, or use mtkit's own model"
        ) from error


@dataclass(frozen=True)
class _Finder:
    """One way of searching."""

    engine: CTranslate2Engine
    options: dict[str, Any]
    penalty: LengthPenalty
    details: bool
    n_best: int

    def __call__(self, request: Request) -> list[list[Hypothesis]]:
        if request.columns is not None or request.constraints:
            raise UsageError("CTranslate2 takes neither a shortlist nor constraints of ours; use the model folder")
        sources = self.engine.sources(request.source)
        longest, shortest = request.max_length.tolist(), request.min_length.tolist()
        results: list[Any] = [None] * len(sources)
        # limits are of a whole batch there: first the widest for all, then its own for who went beyond it
        places = list(range(len(sources)))
        self._run(sources, results, places, longest=max(longest, default=0), shortest=min(shortest, default=0))
        for place, result in enumerate(results):
            lengths = [len(pieces) for pieces in result.hypotheses]
            if max(lengths) > longest[place] or min(lengths) < min(shortest[place], longest[place]):
                self._run(sources, results, [place], longest=longest[place], shortest=shortest[place])
        return [
            self._hypotheses(source, result, most)
            for source, result, most in zip(sources, results, longest, strict=True)
        ]

    def _run(
        self,
        sources: Sequence[Sequence[str]],
        results: list[Any],
        places: Sequence[int],
        *,
        longest: int,
        shortest: int,
    ) -> None:
        found = self.engine.translate(
            [sources[place] for place in places],
            max_decoding_length=longest + 1,  # it counts the end of sentence
            min_decoding_length=min(longest, shortest),
            **self.options,
        )
        for place, result in zip(places, found, strict=True):
            results[place] = result

    def _hypotheses(self, source: Sequence[str], result: Any, longest: int) -> list[Hypothesis]:
        targets = [pieces[:longest] for pieces in result.hypotheses]
        each = [[math.nan] * (len(target) + 1) for target in targets]
        if self.details:
            each = self.engine.log_probs([source] * len(targets), targets)
        found = []
        for i, (target, log_probs) in enumerate(zip(targets, each, strict=True)):
            total = math.fsum(log_probs)
            score = self.penalty.score(torch.tensor(total), torch.tensor(len(log_probs)))
            attention = torch.tensor(result.attention[i][: len(target)]) if self.details and target else None
            found.append(
                Hypothesis(
                    tokens=self.engine.ids(target),
                    log_prob=total,
                    score=float(score) if self.details else result.scores[i],
                    piece_log_probs=log_probs,
                    finished=len(target) < longest,
                    attention=attention,
                )
            )
        return found[: self.n_best]


def _options(search: SearchConfig) -> dict[str, Any]:
    """A search configuration in CTranslate2's words.

    Raises:
        UsageError: names the key that CTranslate2 has no option for.
    """
    penalty, method = search.penalty(), search.method
    refused = {
        "search.length_penalty.kind": not isinstance(penalty, Average),
        "search.coverage_penalty": search.coverage_penalty != 0,
        "search.repetition_penalty": search.repetition_penalty != 1,
        "search.method.kind": not isinstance(method, BeamConfig | SamplingConfig),
        "search.method.epsilon": isinstance(method, SamplingConfig) and method.epsilon != 0,
    }
    for key in (key for key, is_refused in refused.items() if is_refused):
        raise UsageError(f"{key}: CTranslate2 has no option for this value; leave it out, or use mtkit's own model")
    options: dict[str, Any] = {
        "beam_size": search.beam_size,
        "num_hypotheses": search.candidates,
        "patience": search.patience,
        "length_penalty": penalty.alpha if isinstance(penalty, Average) else 0.0,
        "no_repeat_ngram_size": search.no_repeat_ngram,
    }
    return options | (_sampling(method) if isinstance(method, SamplingConfig) else {})


def _sampling(method: SamplingConfig) -> dict[str, Any]:
    """It draws with a generator of its own, so that a line's samples depend on its batch."""
    return {
        "beam_size": 1,
        "num_hypotheses": method.samples,
        "sampling_topk": method.top_k,
        "sampling_topp": method.top_p,
        "sampling_temperature": method.temperature,
    }
