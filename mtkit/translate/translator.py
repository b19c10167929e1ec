"""Translation of lines, in order: split into segments, sort by length, search in batches, merge again."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, overload

from mtkit.corpus.coverage import WordCoverage
from mtkit.errors import ComputeError, DataError, MtkitError, NonFiniteError
from mtkit.search.config import SearchConfig
from mtkit.search.hypothesis import Hypothesis, SentenceRequest
from mtkit.text.lines import require_list
from mtkit.text.source_prefix import SourcePrefix
from mtkit.text.tokenizer import TokenizerPair
from mtkit.translate.engine import BatchBudget, Engine, SearchFn, StartedEngine, name_line, special_ids
from mtkit.translate.lines import MAX_CHUNK, Line, read_windows, text_of, tokenize_constraints
from mtkit.translate.repair import Repair, has_loop
from mtkit.translate.reranking import Rerank, rerank_until_error
from mtkit.translate.segments import LineMerger, Segment, collapse_newlines, split_lines
from mtkit.translate.translation import Translation, TranslationOptions

__all__ = ["Rerank", "Translation", "TranslationOptions", "Translator"]

BATCH_TOKENS = 24_576  # on a CPU, smaller batches spend more time per token, larger ones hardly less
MAX_SEGMENTS = 8192  # that are searched at a time, which limits the memory; a window of ordinary lines has fewer
_OOM_REMEDY = "split the line, or reduce --beam-size or --workers"
LOOP_NGRAM = 4  # a line that ran into a loop is translated again with no 4-gram twice
SHORT_SHARE, SHORT_TOKENS = 0.5, 5  # see `is_short`
UNKNOWN_LENGTH_RATIO = 0.7  # where the training text is unknown: the lowest of the 46 directions in docs/translation.md


def is_short(num_src: int, num_tgt: int, length_ratio: float) -> bool:
    """Return whether a translation is far shorter than its source: than half of the usual length, less 5 tokens.

    A short line can have any length, hence the 5 tokens: a source of 10 tokens or fewer is never too short. Of 114,580
    human translations it is true of 46 (docs/translation.md), 35 of which are of another text or lack a part of it.

    Args:
        num_src, num_tgt: tokens of both, without ends of sentences.
        length_ratio: usual number of target tokens for each source token.
    """
    return num_tgt + SHORT_TOKENS < SHORT_SHARE * length_ratio * num_src


class Translator:
    """Translates lines with an engine.

    Attributes:
        compute_type: the engine's number format, with `auto` resolved.
        can_fork: see Engine.
    """

    def __init__(
        self,
        engine: Engine,
        tokenizers: TokenizerPair,
        search: SearchConfig,
        *,
        max_source_length: int | None = None,
        options: TranslationOptions | None = None,
        rerankings: Sequence[Rerank] = (),
        requires_tag: bool = False,
        single_sentences: bool = False,
        length_ratio: float | None = None,
        coverage: WordCoverage | None = None,
    ) -> None:
        """Take the parts.

        Args:
            engine: translates batches.
            tokenizers: of both sides, those that the engine's models were trained with.
            search: the search configuration.
            max_source_length: number of tokens of the longest training source; longer lines are split if `search`
                says so. None: unknown, no line is split.
            options: settings of speed and memory.
            rerankings: each ranks all hypotheses of each line again, as minimum Bayes risk does.
            requires_tag: whether sources need a tag, since the model has read none without.
            single_sentences: whether a line of several sentences is split into these, since the model has read hardly
                any; see also `TranslationOptions.split_sentences`.
            length_ratio: target tokens for each source token of the training text; None: unknown.
            coverage: finds dropped and invented words; None: they are not looked for.

        Raises:
            UsageError: the tokenizers lack the tag, or the text before sources is as long as the longest training
                source.
        """
        self.options = options or TranslationOptions()
        start = self.options.source_prefix.tgt_ids(tokenizers)
        self._plain_engine, self.engine = engine, StartedEngine(engine, start) if start else engine
        self.compute_type: str = engine.compute_type
        self.can_fork = engine.can_fork
        self.tokenizers = tokenizers
        self.search = search
        self.max_source_length = max_source_length
        self.rerankings = rerankings
        self.requires_tag = requires_tag
        self.single_sentences = single_sentences
        self.length_ratio = length_ratio
        self.coverage = coverage
        self.tag_ids = self.options.source_prefix.ids(tokenizers, max_source_length=max_source_length)
        # a sentence takes the tokens of its source, and as many for each hypothesis
        self.budget = BatchBudget(self.options.batch_tokens or BATCH_TOKENS, self.options.report_oom)
        self.special_ids = special_ids(
            tokenizers.tgt, allow_unknown=search.allow_unknown, copy_ids=tokenizers.copy_ids("tgt")
        )
        self.token_bytes = tokenizers.tgt.token_bytes()

    def __repr__(self) -> str:
        tokens = f"{self.tokenizers.tgt.vocab.size:,} target tokens"
        return f"Translator({self.compute_type}, beam size {self.search.beam_size}, {tokens})"

    @property
    def _restores(self) -> bool:
        """True if missing spans are put back."""
        asked = self.options.restore
        return self.tokenizers.config.normaliser != "none" if asked is None else asked

    def with_source_prefix(self, prefix: SourcePrefix) -> Translator:
        """A translator with another tag or text before sources, or languages; errors as the constructor.

        Example:
            >>> load_model("runs/many-to-many").with_source_prefix(SourcePrefix(tag="de")).translate_lines(["A dog."])
        """
        return self.varied(options=replace(self.options, source_prefix=prefix))

    def varied(
        self,
        *,
        search: SearchConfig | None = None,
        options: TranslationOptions | None = None,
        engine: Engine | None = None,
    ) -> Translator:
        """A translator with another search, other options or another engine of the model; errors as the constructor."""
        return Translator(
            engine or self._plain_engine,
            self.tokenizers,
            search or self.search,
            max_source_length=self.max_source_length,
            options=options or self.options,
            rerankings=self.rerankings,
            requires_tag=self.requires_tag,
            single_sentences=self.single_sentences,
            length_ratio=self.length_ratio,
            coverage=self.coverage,
        )

    @overload
    def translate(self, lines: str, *, first: int = 1) -> str: ...  # type: ignore[overload-overlap]
    @overload
    def translate(self, lines: Iterable[Line], *, first: int = 1) -> Iterator[Translation]: ...
    def translate(self, lines: str | Iterable[Line], *, first: int = 1) -> str | Iterator[Translation]:
        """Translate lines: exactly one translation for each, in order; that of a blank line is blank.

        Args:
            lines: any text, with or without constraints on the translation. At most `flush_every` lines are read before
                their translations are returned. One text instead of a list has a text as its translation, line by line.
            first: number of the first line.

        Yields:
            The translations, with log-probabilities and alignment if `TranslationOptions.with_scores` is set.

        The error of a line is raised after the translations of all lines before it.

        Raises:
            MtkitError: reading `lines` failed.
            DataError: constraints contradict each other, or a line is too long for the model, or a translation of it
                for a language model that reranks.
            NonFiniteError: the model, or a language model that reranks, computes NaN or infinity.
            ComputeError: memory runs out for a single line.
            UsageError: the model needs a tag.
            TypeError: `lines` is no list of texts, or has an item that is no text.

        Example:
            >>> load_model("runs/quickstart").translate("The dog runs .")
        """
        if isinstance(lines, str):
            return "\n".join(self.translate_lines(lines.split("\n")))
        require_list("lines", lines)
        return self._translate(lines, first)

    def _translate(self, lines: Iterable[Line], first: int) -> Iterator[Translation]:
        self.options.source_prefix.check_tag(self.tokenizers, requires_tag=self.requires_tag)
        for window, error in read_windows(tokenize_constraints(lines, first, self.tokenizers.tgt), self.options):
            yield from self._translate_window(window, first)
            first += len(window)
            if error is not None:
                raise error

    def translate_lines(self, lines: Iterable[Line]) -> list[str]:
        """Translate a list of lines; return the texts alone. Arguments and errors as `translate`.

        Example:
            >>> load_model("runs/quickstart").translate_lines(["The dog runs .", "A cat sleeps ."])
        """
        require_list("lines", lines)
        return [translation.hyp for translation in self._translate(lines, 1)]

    def _translate_window(self, lines: Sequence[Line], first: int) -> Iterator[Translation]:
        split, sentences = self.search.split_long_lines, self.options.split_sentences
        if sentences is None and not (self.single_sentences and split and self.search.n_best == 1):
            sentences = False  # a line of several segments has one translation in an n-best list
        max_length = None if self.max_source_length is None else self.max_source_length - len(self.tag_ids)
        segments = split_lines(
            lines, first, self.tokenizers, max_length, split=split, sentences=sentences, removes=self._restores
        )
        penalty = self.search.penalty()
        merger = LineMerger(first, self.tokenizers)
        end = _End(first + len(lines))
        while end.error is None and (group := list(itertools.islice(segments, MAX_SEGMENTS))):
            self._translate_segments(group, end)
            done = [segment for segment in group if segment.line < end.line]
            for segment in done:
                while merger.line < segment.line:
                    yield merger.translation(penalty, lines[merger.line - first])
                    merger = LineMerger(merger.line + 1, self.tokenizers)
                merger.add(segment)
            if done and self.options.report_progress is not None:
                length = len(text_of(lines[merger.line - first]))
                if length > MAX_CHUNK:
                    self.options.report_progress(merger.line, done[-1].end, length)
        while merger.line < end.line:
            yield merger.translation(penalty, lines[merger.line - first])
            merger = LineMerger(merger.line + 1, self.tokenizers)
        if end.error is not None:
            raise end.error

    def _translate_segments(self, segments: Sequence[Segment], end: _End) -> None:
        """Search the segments of lines before `end`, once more without repeated n-grams where a translation loops."""
        self._search(segments, self.search, end)
        searched = [s for s in segments if s.line < end.line and s.hypotheses]
        looping = [s for s in searched if has_loop(s.hypotheses[0].tokens, s.ids)]
        if looping and self.search.retry_loops:
            no_loops = replace(self.search, no_repeat_ngram=self.search.no_repeat_ngram or LOOP_NGRAM)
            self._search(looping, no_loops, end)
        for segment in looping:
            segment.flags = (*segment.flags, "repetition")
        repair = Repair(
            self.tokenizers,
            self.options.glossary,
            restores=self._restores,
            translate=self._translate_trials,
            attend=self._attend,
        )
        self._detokenize([s for s in segments if s.line < end.line], end)
        with_texts = [s for s in segments if s.line < end.line and s.hypotheses]
        repair(with_texts)
        ratio = self.length_ratio or UNKNOWN_LENGTH_RATIO
        for segment in with_texts:
            if is_short(len(segment.ids), len(segment.hypotheses[0].tokens), ratio):
                segment.flags = (*segment.flags, "short")
        if self.coverage is not None:  # where the tokens are those of the text
            plain = [s for s in with_texts if s.removal is None and not s.replaced]
            found = self.coverage.doubts([s.ids for s in plain], [s.hypotheses[0].tokens for s in plain])
            for segment, doubts in zip(plain, found, strict=True):
                if any(doubts):
                    segment.mark(doubts, self.tokenizers)

    def _source(self, segment: Segment) -> list[int]:
        """The ids that the model reads for a segment."""
        return [*self.tag_ids, *segment.ids, *self.tokenizers.src.ending()]

    def _translate_trials(self, segments: Sequence[Segment]) -> None:
        """Translate segments that have a translation already; those that fail get none."""
        end = _End(sys.maxsize)
        self._search(segments, self.search, end)
        if done := [s for s in segments if s.line < end.line and s.hypotheses]:
            self._detokenize(done, end)

    @cached_property
    def _default_search(self) -> SearchFn:
        """The search of `search`, made once: making it takes a fifth of the time of a line alone."""
        with_scores = self.options.with_scores
        return self.engine.make_search(self.search, self.special_ids, self.token_bytes, with_scores=with_scores)

    def _search(self, segments: Sequence[Segment], config: SearchConfig, end: _End) -> None:
        """Search the hypotheses of the segments that have tokens, of lines before `end`, which a failure moves."""
        with_scores, num_hypotheses = self.options.with_scores, config.num_hypotheses
        if self.rerankings:
            config = replace(config, n_best=num_hypotheses)
        search = self._default_search
        if config is not self.search:
            search = self.engine.make_search(config, self.special_ids, self.token_bytes, with_scores=with_scores)

        def run(part: Sequence[Segment]) -> list[list[Hypothesis]]:
            requests = []
            for segment in part:
                length = len(segment.ids)
                request = replace(
                    segment.request,
                    source=self._source(segment),
                    max_length=max(config.max_length.of(length), segment.request.max_length),  # room for constraints
                    min_length=config.min_length.of(length),
                    sentence_id=segment.number,
                )
                requests.append(request)
            return search(requests)

        def cost(segment: Segment) -> int:
            return (1 + num_hypotheses) * len(self._source(segment))

        for planned in self.budget.batches((s for s in segments if s.ids), cost):
            batch = [segment for segment in planned if segment.line < end.line]
            results = self.budget.compute(batch, cost, run)
            for segment, hypotheses in zip(batch, results, strict=True):
                if isinstance(hypotheses, DataError | ComputeError):
                    end.move(segment.line, name_line(segment.line, hypotheses, remedy=_OOM_REMEDY))
                elif any(h.failed for h in hypotheses):
                    end.move(segment.line, NonFiniteError(self.engine.name, segment.line))
                else:
                    segment.accept([self._without_tags(h) for h in hypotheses], self.token_bytes)

    def _attend(self, segments: Sequence[Segment]) -> list[Any]:
        """The attention of the best hypotheses over their sources, by one more pass where search did not store it."""
        config, tokens = SearchConfig(beam_size=1), {s.number: s.hypotheses[0].tokens for s in segments}
        search = self.engine.make_search(config, self.special_ids, self.token_bytes, with_scores=True)
        attention = {s.number: s.hypotheses[0].attention for s in segments}

        def request(segment: Segment) -> SentenceRequest:
            given = tokens[segment.number]
            return SentenceRequest(source=self._source(segment), max_length=len(given), prefix=given)

        def cost(segment: Segment) -> int:
            return 2 * len(self._source(segment))

        missing = [s for s in segments if attention[s.number] is None and tokens[s.number]]
        for batch in self.budget.batches(missing, cost):
            results = self.budget.compute(batch, cost, lambda part: search([request(segment) for segment in part]))
            for segment, result in zip(batch, results, strict=True):
                if not isinstance(result, DataError | ComputeError):
                    attention[segment.number] = self._without_tags(result[0]).attention
        return [attention[segment.number] for segment in segments]

    def _without_tags(self, hypothesis: Hypothesis) -> Hypothesis:
        """The hypothesis with its attention over the text alone."""
        if not self.tag_ids or hypothesis.attention is None:
            return hypothesis
        return replace(hypothesis, attention=hypothesis.attention[:, len(self.tag_ids) :])

    def _detokenize(self, segments: Sequence[Segment], end: _End) -> None:
        """Add the texts of all hypotheses, rank them again if asked to, and keep the n best; none after an error."""
        pairs = [(h.tokens, s.text) for s in segments for h in s.hypotheses]
        texts = iter(self.tokenizers.decode([tokens for tokens, _ in pairs], [src for _, src in pairs]))
        lists = [[replace(h, text=collapse_newlines(next(texts))) for h in s.hypotheses] for s in segments]
        if self.rerankings:
            lists, error = rerank_until_error(self.rerankings, lists)
            if error is not None:
                line = segments[len(lists)].line
                named = name_line(line, error, remedy=_OOM_REMEDY)
                end.move(line, NonFiniteError(error.model, line) if isinstance(error, NonFiniteError) else named)
        lists += [[]] * (len(segments) - len(lists))  # after an error
        for segment, hypotheses in zip(segments, lists, strict=True):
            segment.hypotheses = hypotheses[: self.search.n_best]


@dataclass
class _End:
    """The first line that is not translated: the line after a window, or one that failed, with its error."""

    line: int
    error: MtkitError | None = None

    def move(self, line: int, error: MtkitError) -> None:
        """End at a line that failed, unless one before it did."""
        if line < self.line:
            self.line, self.error = line, error
