"""Core of the server behind its interfaces: lines to translations, through cache, queue and models.

Long lines wait in the queue as groups of sentences, and their results become one again."""

from __future__ import annotations

import hashlib
import math
import re
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

from mtkit.documents.format import DocumentFormat
from mtkit.documents.formats.plain import PlainText
from mtkit.documents.translate import DocumentReport, PendingStretch, finish_stretch
from mtkit.documents.unit import StretchError
from mtkit.errors import MtkitError
from mtkit.serve.clients import RequestError
from mtkit.serve.fair_queue import QueuedRequest
from mtkit.serve.metrics import ServerMetrics
from mtkit.serve.registry import MULTIPLE, Hop, Registry
from mtkit.serve.settings import ServerSettings
from mtkit.text.language import rank_languages
from mtkit.text.language_tags import language_name, match_language, normal_code
from mtkit.text.normalise import plain
from mtkit.text.sentences import split_sentences
from mtkit.text.spans import begins_message, needs_translation
from mtkit.translate.segments import space_between

AUTO = "auto"  # source of a request whose language is to be detected
DETECTED_CHARACTERS = 2000  # of a text whose language is detected
SURE = 90.0  # percent, at which nine in ten detected languages are right
UNREAD_ODDS = 30  # how much more probable than the models' languages one is that no model reads, to be the answer
LINE_END = re.compile(r"(\r\n|[\n\r])")
LOADING_SECONDS = 5  # after which a client may ask again for a model that cannot be loaded now


@dataclass(frozen=True, kw_only=True)
class RequestOptions:
    """Options of a request.

    Attributes:
        client: whose turn it takes.
        sentences: whether the sentences of a line are translated by themselves; False: only if the model has hardly
            read lines of several, of which it would lose all but the first.
        alternatives: number of further translations.
        details: whether alignment and confidence are wanted.
        glossary: terms as JSON, lists of a term and its allowed forms; only of a direction that has a model. "": none.
        model: name of the model or adapter; None: the first of the direction.
        next_words: number of words that may follow the beginning; 0: a translation is wanted.
        is_patient: whether it waits for a place in the queue, as documents do.
    """

    client: str
    sentences: bool = True
    alternatives: int = 0
    details: bool = False
    glossary: str = ""
    model: str | None = None
    next_words: int = 0
    is_patient: bool = False


class Direction(NamedTuple):
    """Languages as the models name them."""

    source: str
    target: str


class DetectedLanguage(NamedTuple):
    """A language and its probability in percent."""

    code: str
    confidence: float


class TranslationService:
    """Translates lines and texts with the models of a registry."""

    def __init__(
        self, settings: ServerSettings, registry: Registry, metrics: ServerMetrics, note: Callable[[str], None]
    ) -> None:
        self.settings, self.registry, self.metrics, self._note = settings, registry, metrics, note
        self._cache = TranslationCache(settings.cache_bytes)

    def check_length(self, texts: Sequence[str]) -> None:
        """Check the number of characters of a request; RequestError if there are too many."""
        if (count := sum(map(len, texts))) > self.settings.max_characters:
            most = self.settings.max_characters
            raise RequestError(413, f"{count:,} characters; at most {most:,} are translated at once")

    def log_texts(self, texts: Sequence[str], hyps: Sequence[str]) -> None:
        """Write texts and translations to the log, if it is to have them."""
        if self.settings.log == "texts":
            for text, hyp in zip(texts, hyps, strict=True):
                self._note(f"{text!r} -> {hyp!r}")

    def find_direction(self, source: str, target: str, model: str | None = None) -> Direction:
        """The direction that a request names.

        Raises:
            RequestError: a language is unknown, or no model translates so.
        """
        known = self.registry.targets  # a text in a language that is only a target passes through to that language
        direction = Direction(_match("source", source, known), _match("target", target, known))
        if direction.source != direction.target and not self.registry.find_route(*direction, model):
            names = ", ".join(hop.name for hop in self.registry.directions.get(direction, []))
            named = "" if model is None else f" by a model {model[:80]!r}"
            others = f"; the models are {names}" if names else ""
            raise RequestError(400, f"{direction.source} to {direction.target} is not supported{named}{others}")
        return direction

    def document_direction(self, source: str, target: str, model: str | None = None) -> Direction:
        """The direction of a document, whose source stays AUTO until its text is read; errors as `find_direction`."""
        if source != AUTO:
            return self.find_direction(source, target, model)
        return Direction(AUTO, _match("target", target, self.registry.targets))

    def detect_direction(
        self, text: str, source: str, target: str, model: str | None = None, *, passes_unread: bool = False
    ) -> tuple[Direction, DetectedLanguage | None]:
        """The direction that a request names, whose source may be auto, and what was detected.

        A text of a few words is often taken for a language that hardly anybody sends. The best of the models' languages
        is the answer unless another one is sure, or far more probable.

        Args:
            passes_unread: whether a text that no model reads goes through as it is, as one in the target language does;
                its direction is from its language to itself.

        Raises:
            RequestError: as `find_direction`, or no model reads the language.
        """
        if source != AUTO:
            return self.find_direction(source, target, model), None
        sources = self.registry.sources
        detected, *others = self.detect(text)
        if detected.confidence < SURE and detected.code not in sources:
            best = next((each for each in others if each.code in sources), detected)
            detected = best if best.confidence * UNREAD_ODDS >= detected.confidence else detected
        if detected.code in sources or MULTIPLE in sources:
            source = detected.code if detected.code in sources else MULTIPLE
            return self.find_direction(source, target, model), detected
        tgt = _match("target", target, self.registry.targets)
        if not passes_unread and match_language(detected.code, [tgt]) is None:
            what = f"{language_name(detected.code)} was detected ({detected.confidence:.0f}%), which no model reads"
            raise RequestError(400, f"{what}; the source is one of {', '.join(sources)}")
        return Direction(detected.code, detected.code), detected

    def detect(self, text: str) -> list[DetectedLanguage]:
        """Languages that a text may be in, the most probable first, those of the models by the models' codes."""
        sources = self.registry.sources
        found: dict[str, float] = {}
        for code, probability in rank_languages(text[:DETECTED_CHARACTERS], separate=sources):
            language = match_language(code, sources) or normal_code(code)
            found[language] = found.get(language, 0.0) + 100 * probability
        ranked = sorted(found, key=lambda code: -found[code])
        return [DetectedLanguage(code, found[code]) for code in ranked] or [DetectedLanguage(sources[0], 0.0)]

    async def translate_lines(
        self, lines: Sequence[str], direction: Direction, options: RequestOptions, *, beginnings: Sequence[str] = ()
    ) -> list[LineResult]:
        """Translate lines.

        Args:
            lines: without line ends.
            direction: a result of `find_direction`; a language to itself leaves the lines as they are.
            options: of the request.
            beginnings: of the translation of each line; none: no line has one.

        Raises:
            RequestError: the queue is full, a line cannot be translated, or a model cannot be loaded.
        """
        self.metrics.characters.labels(*direction).inc(sum(map(len, lines)))
        if direction.source == direction.target:
            return [LineResult(hyp=line) for line in lines]
        *first, last = self.registry.find_route(*direction, options.model)
        if not first:
            return await self._translate(lines, last, options, beginnings)
        if options.glossary:
            raise RequestError(400, f"{direction.source} to {direction.target} has no model of its own for a glossary")
        middle = await self._translate(lines, first[0], replace(options, alternatives=0, next_words=0), ())
        final = await self._translate([each.hyp for each in middle], last, options, beginnings)
        return [through(*pair) if not options.next_words else pair[1] for pair in zip(middle, final, strict=True)]

    async def _translate(
        self, lines: Sequence[str], hop: Hop, options: RequestOptions, beginnings: Sequence[str]
    ) -> list[LineResult]:
        for_model: dict[str, Any] = {
            "sentences": options.sentences,
            "n_best": 1 + options.alternatives,
            "details": options.details,
            "prefix": tuple(asdict(hop.prefix).items()),
            "adapter": hop.adapter,
            "glossary": options.glossary,
            "next_words": options.next_words,
        }
        segments = [
            [LineSegment("", line)]
            if beginnings and beginnings[index]
            else split_segments(line, sentences=options.sentences)
            for index, line in enumerate(lines)
        ]
        texts = [
            (segment.text, beginnings[index] if beginnings and number == 0 else "")
            for index, of_line in enumerate(segments)
            for number, segment in enumerate(of_line)
        ]
        results = iter(await self._results(texts, hop, for_model, options))
        return [merge_segments(of_line, [next(results) for _ in of_line]) for of_line in segments]

    async def _results(
        self, texts: Sequence[tuple[str, str]], hop: Hop, for_model: dict[str, Any], options: RequestOptions
    ) -> list[dict[str, Any]]:
        """The results of texts, from the cache or the model."""
        glossary = hashlib.sha256(options.glossary.encode()).digest() if options.glossary else b""
        version = (hop.model.name, hop.model.version, *{**for_model, "glossary": glossary}.values())
        results: dict[tuple[str, str], dict[str, Any]] = {}
        missing: dict[tuple[str, str], None] = {}  # each once
        for text in texts:
            if not text[1] and not needs_translation(text[0]):
                results[text] = {"hyp": text[0], "alignment": [(i, i) for i in range(len(text[0].split()))]}
            elif (known := self._cache.get((version, *text))) is not None:
                results[text] = known
            else:
                missing[text] = None
        self.metrics.cache_hits.inc(len(results))
        self.metrics.cache_misses.inc(len(missing))
        if not missing:
            return [results[text] for text in texts]
        job, model, queue = QueuedRequest(options.client, for_model, [*missing]), hop.model, hop.model.queue
        while queue.waiting and queue.waiting + job.characters > self.settings.max_waiting:
            if not options.is_patient:
                rate = (model.pool.rate if model.pool else 1000.0) * self.settings.workers
                seconds = math.ceil(queue.waiting / rate)
                raise RequestError(503, f"busy; try again in {seconds} s", retry_after=seconds)
            await queue.wait()
        queue.add(job)
        try:
            await self.registry.load(model)
            await job.done
        except MtkitError as error:
            message = f"the model {model.name} cannot be loaded now"
            raise RequestError(503, message, retry_after=LOADING_SECONDS) from error
        finally:
            if not job.done.done() or job.done.cancelled():
                queue.remove(job)
        for text, result in zip(missing, job.results, strict=True):
            if "error" in result:
                raise RequestError(400, f"{result['error']} (in {text[0][:40]!r})")
            results[text] = result
            self._cache.put((version, *text), result)
        return [results[text] for text in texts]

    async def translate_texts(
        self, texts: Sequence[str], direction: Direction, options: RequestOptions
    ) -> list[LineResult]:
        """Translate texts line by line; alternatives are those of a text of one line. Errors as `translate_lines`.

        Of messages of ICU the texts in their branches are translated.
        """
        if any(map(begins_message, texts)):
            messages = [text for text in texts if begins_message(text)]
            done = iter(await self.translate_markup(messages, PlainText(), direction, options))
            others = [text for text in texts if not begins_message(text)]
            rest = iter(await self.translate_texts(others, direction, options))
            return [next(done if begins_message(text) else rest) for text in texts]
        split = [LINE_END.split(text) for text in texts]  # lines, and the line ends between them
        results = iter(await self.translate_lines([line for each in split for line in each[::2]], direction, options))
        joined: list[LineResult] = []
        for written in split:
            of_text = [next(results) for _ in written[::2]]
            if len(of_text) == 1:
                joined += of_text
                continue
            written[::2] = [each.hyp for each in of_text]
            flags = dict.fromkeys(flag for each in of_text for flag in each.flags)
            joined.append(LineResult(hyp="".join(written), flags=tuple(flags)))
        return joined

    async def translate_markup(
        self, texts: Sequence[str], form: DocumentFormat, direction: Direction, options: RequestOptions
    ) -> list[LineResult]:
        """Translate texts with tags, which keep their places.

        Raises:
            RequestError: as `translate_lines`, or a text is not of its form.
        """
        try:
            pending = [PendingStretch(1, text, form.units(text)) for text in texts]
        except StretchError as error:
            raise RequestError(400, str(error)) from error
        lines = [each.lines for each in pending]
        with_alignment = replace(options, details=True, alternatives=0)
        results = iter(await self.translate_lines([line for each in lines for line in each], direction, with_alignment))
        for each, of_text in zip(pending, lines, strict=True):
            each.translations += [next(results) for _ in of_text]
        return [LineResult(hyp=finish_stretch(each, "text", DocumentReport())) for each in pending]


def _match(field: str, code: str, known: Iterable[str]) -> str:
    """The known language that a field of a request means; RequestError if none is."""
    if (language := match_language(code, known)) is None:
        raise RequestError(400, f"{field}: {code[:40]!r} is not supported; one of {', '.join(known)}")
    return language


MAX_SEGMENT = 800  # characters of a group of sentences


class LineSegment(NamedTuple):
    """A segment of a line, and the white space before it."""

    space: str
    text: str


@dataclass(frozen=True, kw_only=True)
class LineResult:
    """The translation of a line.

    Attributes:
        hyp, flags, alignment, terms, dropped, invented: see Translation.
        confidence: probability of each word of the translation; None: unknown.
        alternatives: other translations, best first; none of a line that was split.
        next_words: see `next_words` in `processes/worker.py`.
    """

    hyp: str
    flags: tuple[str, ...] = ()
    alignment: tuple[tuple[int, int], ...] = ()
    confidence: tuple[float | None, ...] = ()
    terms: tuple[tuple[str, str], ...] = ()
    dropped: tuple[tuple[int, str, float], ...] = ()
    invented: tuple[tuple[int, str, float], ...] = ()
    alternatives: tuple[str, ...] = ()
    next_words: tuple[tuple[str, str], ...] = ()


def split_segments(line: str, *, sentences: bool) -> list[LineSegment]:
    """The segments of a line, which is one if it is short or its sentences are not translated by themselves."""
    if len(line) <= MAX_SEGMENT or not sentences:
        return [LineSegment("", line)]
    groups: list[str] = []
    for sentence in split_sentences(line):
        if groups and len(groups[-1]) + len(sentence) <= MAX_SEGMENT:
            groups[-1] += sentence
        else:
            groups.append(sentence)
    segments = [LineSegment("", groups[0])]
    for group in groups[1:]:
        text = group.lstrip()
        space = group[: len(group) - len(text)]
        segments.append(LineSegment(" " if space and not plain(space) else space, text))
    return segments


def merge_segments(segments: Sequence[LineSegment], results: Sequence[dict[str, Any]]) -> LineResult:
    """The result of a line from those of its segments."""
    hyp = ""
    num_src = num_tgt = 0
    alignment: list[tuple[int, int]] = []
    dropped: list[tuple[int, str, float]] = []
    invented: list[tuple[int, str, float]] = []
    for segment, result in zip(segments, results, strict=True):
        if hyp:
            hyp += space_between(hyp, segment.space, is_blank=not result.get("hyp"))
        hyp += result.get("hyp", "")
        alignment += [(src + num_src, tgt + num_tgt) for src, tgt in result.get("alignment", ())]
        dropped += [(word + num_src, text, p) for word, text, p in result.get("dropped", ())]
        invented += [(word + num_tgt, text, p) for word, text, p in result.get("invented", ())]
        num_src += len(segment.text.split())
        num_tgt += len(result.get("hyp", "").split())
    return LineResult(
        hyp=hyp,
        flags=tuple(dict.fromkeys(flag for result in results for flag in result.get("flags", ()))),
        alignment=tuple(alignment),
        confidence=tuple(each for result in results for each in result.get("confidence", ())),
        terms=tuple((term, form) for result in results for term, form in result.get("terms", ())),
        dropped=tuple(dropped),
        invented=tuple(invented),
        alternatives=tuple(results[0].get("alternatives", ())) if len(results) == 1 else (),
        next_words=tuple((word, hyp) for word, hyp in results[0].get("next", ())),
    )


def through(first: LineResult, second: LineResult) -> LineResult:
    """The result of a line that was translated to a third language and from there; confidence is that of the second."""
    links: dict[int, list[int]] = {}
    for middle, tgt in second.alignment:
        links.setdefault(middle, []).append(tgt)
    pairs = {(src, tgt) for src, middle in first.alignment for tgt in links.get(middle, ())}
    return LineResult(
        hyp=second.hyp,
        flags=tuple(dict.fromkeys((*first.flags, *second.flags))),
        alignment=tuple(sorted(pairs)),
        confidence=second.confidence,
        alternatives=second.alternatives,
    )


ENTRY_BYTES = 300  # of an entry beside its key and its result

Key = tuple[tuple[Any, ...], str, str]  # model and options, text, beginning of the translation


class TranslationCache:
    """Results by model, options, text and beginning."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._entries: OrderedDict[Key, tuple[Any, int]] = OrderedDict()

    def get(self, key: Key) -> Any:
        """The result of a key; None if it is not there."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        self._entries.move_to_end(key)
        return entry[0]

    def put(self, key: Key, result: dict[str, Any]) -> None:
        """Keep a result; nothing in a cache of 0 bytes."""
        if not self._max_bytes:
            return
        size = ENTRY_BYTES + _bytes_of(key) + _bytes_of(result)
        if (old := self._entries.pop(key, None)) is not None:
            self._bytes -= old[1]
        self._entries[key] = result, size
        self._bytes += size
        while self._bytes > self._max_bytes:
            _, (_, dropped) = self._entries.popitem(last=False)
            self._bytes -= dropped


def _bytes_of(value: Any) -> int:
    """The memory of a value with its parts; names of fields are shared."""
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return sys.getsizeof(value) + sum(map(_bytes_of, parts))
