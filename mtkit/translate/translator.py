"""Lines -> lines, in order: segment, sort by length, search in batches, put together again."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import torch

from mtkit.corpus.order.collate import collate_source
from mtkit.errors import DataError, MtkitError, UsageError
from mtkit.search.config import SearchConfig
from mtkit.search.constraints.forbidden import Spellings
from mtkit.search.interface import Request, Symbols
from mtkit.text.tokenizer import Tokenizer, TokenizerPair
from mtkit.translate.constraints import Asked, Line, constrain, in_pieces, text_of
from mtkit.translate.engines.interface import Engine
from mtkit.translate.repetition import has_loop
from mtkit.translate.segment import Segment, cut, join, one_line
from mtkit.translate.shortlist import Shortlist
from mtkit.translate.translation import Translation

__all__ = ["Rerank", "Translation", "TranslationOptions", "Translator", "symbols_of"]

L = TypeVar("L", bound=Line | Asked)
Rerank = Callable[[Sequence[str]], Sequence[int]]  # texts of the n best -> their places, best first
BATCH_TOKENS = 24_576  # smaller ones spend more on each step, larger ones gained little on a processor
LOOP_NGRAM = 4  # a line that ran into a loop is translated again with no 4-gram twice


@dataclass(frozen=True, kw_only=True)
class TranslationOptions:
    """How the work is done; none of it changes a translation, except by a shortlist, which is that of a batch."""

    batch_tokens: int | None = None  # of a batch: (sentences + hypotheses) × longest source; BATCH_TOKENS unless set
    window: int = 4096  # lines that are read ahead and sorted by length
    window_characters: int = 4_000_000  # of these lines together at most, but for the last; bounds memory
    flush_every: int | None = None  # lines after which translations appear; the window unless set
    details: bool = False  # log-probabilities and alignment also where the search does without

    def __post_init__(self) -> None:
        for name in ("batch_tokens", "window", "window_characters", "flush_every"):
            value = vars(self)[name]
            if value is not None and value < 1:
                raise UsageError(f"{name} must be at least 1, not {value}")


def symbols_of(tokenizer: Tokenizer, *, allow_unknown: bool = False) -> Symbols:
    """The ids that search must know; control pieces are never generated, the unknown piece only if allowed."""
    vocab = tokenizer.vocab
    banned = {*tokenizer.control_ids(), vocab.pad, vocab.bos} - {vocab.eos}
    if not allow_unknown:
        banned.add(vocab.unk)
    return Symbols(vocab.size, vocab.bos, vocab.eos, tuple(sorted(banned)))


class Translator:
    """Translates lines with an engine."""

    def __init__(
        self,
        engine: Engine,
        tokenizers: TokenizerPair,
        search: SearchConfig,
        *,
        longest_source: int | None = None,
        options: TranslationOptions | None = None,
        rerank: Rerank | None = None,
        shortlist: Shortlist | None = None,
    ) -> None:
        """Take the parts.

        Args:
            engine: finds the translations of a batch.
            tokenizers: of both sides, as the engine's models were trained with.
            search: how translations are looked for.
            longest_source: pieces of the longest training source; longer lines are split if `search` says so. None:
                nobody knows.
            options: how the work is done.
            rerank: orders the n best of each line anew, as minimum Bayes risk does.
            shortlist: chooses the target pieces of each batch; None: all.
        """
        self.options = options or TranslationOptions()
        self.engine = engine
        self.tokenizers = tokenizers
        self.search = search
        self.longest_source = longest_source
        self.rerank = rerank
        self.shortlist = shortlist
        self.symbols = symbols_of(tokenizers.tgt, allow_unknown=search.allow_unknown)
        self.spellings = Spellings(tokenizers.tgt.spellings())

    @property
    def compute_type(self) -> str:
        """The numbers that the engine computes with: what `auto` came to."""
        return self.engine.compute_type

    def translate(self, lines: Iterable[Line], *, first: int = 1) -> Iterator[Translation]:
        """Exactly one translation for each line, in order; a blank line (empty or white space) gives a blank one.

        Args:
            lines: any text, with demands on its translation or without; what follows a line is not waited for longer
                than `flush_every` says.
            first: the number of the first line.

        Raises:
            MtkitError: what reading `lines` raises, after the translations of all lines before.
            DataError: demands that contradict each other, likewise; a model gives figures that are not numbers.
        """
        for window, error in windows(in_pieces(lines, first, self.tokenizers.tgt), self.options):
            yield from self._window(window, first)
            first += len(window)
            if error is not None:
                raise error

    def translate_lines(self, lines: Iterable[Line]) -> list[str]:
        """The texts alone."""
        return [translation.hyp for translation in self.translate(lines)]

    def _window(self, lines: Sequence[Asked], first: int) -> Iterator[Translation]:
        segments = list(cut(lines, first, self.tokenizers, self.longest_source, split=self.search.split_long_lines))
        self._search(segments, self.search)
        looping = [s for s in segments if s.found and has_loop(s.found[0].tokens, s.ids)]
        if self.search.retry_loops:
            no_loops = replace(self.search, no_repeat_ngram=self.search.no_repeat_ngram or LOOP_NGRAM)
            self._search(looping, no_loops)
        for segment in looping:
            segment.flags = (*segment.flags, "repetition")
        self._write(segments)
        by_line = {line: list(group) for line, group in itertools.groupby(segments, key=lambda s: s.line)}
        penalty = self.search.penalty()
        for line in range(first, first + len(lines)):
            yield join(line, by_line.get(line, []), self.tokenizers, penalty)

    def _search(self, segments: Sequence[Segment], config: SearchConfig) -> None:
        """Find the hypotheses of all segments that have pieces."""
        details, vocab, device = self.options.details, self.tokenizers.src.vocab, self.engine.device
        find = self.engine.finder(config, self.symbols, details=details)
        size = self.options.batch_tokens or BATCH_TOKENS
        for batch in _batches(segments, size / (1 + config.rows)):
            ids = [s.ids for s in batch]
            source = collate_source(ids, vocab).to(device)
            columns = None if self.shortlist is None else self.shortlist.columns(ids, vocab.eos).to(device)
            request = Request(
                source=source,
                max_length=torch.tensor([config.max_length.of(len(each)) for each in ids], device=device),
                min_length=torch.tensor([config.min_length.of(len(each)) for each in ids], device=device),
                lines=torch.tensor([s.number for s in batch], device=device),
                real=source.real,
                columns=columns,
            )
            if any(s.demands for s in batch):
                request = constrain(request, [s.demands for s in batch], self.symbols, self.spellings)
            for segment, found in zip(batch, find(request), strict=True):
                if any(math.isnan(h.score) for h in found) and (details or config.rows > 1):
                    raise DataError(f"line {segment.line}: the model gives scores that are not numbers; train it again")
                segment.take(found, self.spellings)

    def _write(self, segments: Sequence[Segment]) -> None:
        """Ids -> text for all hypotheses, in the order that `rerank` wants."""
        texts = iter(self.tokenizers.tgt.decode([h.tokens for s in segments for h in s.found]))
        for segment in segments:
            segment.texts = [one_line(next(texts)) for _ in segment.found]
            if self.rerank is not None and len(segment.found) > 1:
                order = self.rerank(segment.texts)
                segment.found = [segment.found[i] for i in order]
                segment.texts = [segment.texts[i] for i in order]
            del segment.found[self.search.n_best :], segment.texts[self.search.n_best :]


def windows(lines: Iterable[L], options: TranslationOptions) -> Iterator[tuple[list[L], MtkitError | None]]:
    """Lines to be sorted together, and with the last of them what ended the reading."""
    most = min(options.window, options.flush_every or options.window)
    window: list[L] = []
    characters = 0
    try:
        for line in lines:
            window.append(line)
            characters += len(text_of(line))
            if len(window) == most or characters >= options.window_characters:
                yield window, None
                window, characters = [], 0
    except MtkitError as error:
        yield window, error
        return
    if window:
        yield window, None


def _batches(segments: Iterable[Segment], budget: float) -> Iterator[list[Segment]]:
    """Segments of similar length together, the longest first; sentences × longest source stays within the budget."""
    waiting = sorted((s for s in segments if s.ids), key=lambda s: -len(s.ids))
    while waiting:
        count = max(1, int(budget / (len(waiting[0].ids) + 1)))
        yield waiting[:count]
        waiting = waiting[count:]
