"""The interface of LibreTranslate: translation, detection, languages, suggestions; documents are in document_jobs.py.

Requests are JSON or forms, errors `{"error": sentence}`. Beyond LibreTranslate, `model` names one of several models of
a direction, and `glossary` (JSON) is a list of terms, each a list of the term and its allowed translations.
"""

from __future__ import annotations

import datetime
import errno
import fcntl
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, ClassVar

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from mtkit import __version__
from mtkit.documents.format import suffixes
from mtkit.documents.formats.html import Html
from mtkit.documents.markup import escape_xml
from mtkit.errors import DataError
from mtkit.io.files import translate_write_errors
from mtkit.serve.clients import Clients, RequestError
from mtkit.serve.core import DetectedLanguage, RequestOptions, TranslationService
from mtkit.serve.fronts.front import (
    FLAG,
    INTEGER,
    LIST,
    NUMBER,
    SHARED_FIELDS,
    TERMS,
    TEXT,
    Endpoint,
    Front,
    RequestField,
    choice,
    integer_to,
    list_of,
    one_or_list,
    record,
)
from mtkit.text.language_tags import language_name

MAX_ALTERNATIVES = 10
FORMATS = ("text", "html")
_DETECTED = record(confidence=NUMBER, language=TEXT)


class LibreTranslate(Front):
    """Texts, languages and the state of the server."""

    fields: ClassVar[Mapping[str, RequestField]] = {
        **SHARED_FIELDS,
        "q": RequestField("text, or a list of texts", "The dog sleeps."),
        "format": RequestField("text, or html, whose tags keep their places"),
        "alternatives": RequestField("number of further translations of each text"),
    }

    def endpoints(self) -> list[Endpoint]:
        """The endpoints."""
        return [
            Endpoint(
                "/translate",
                self.translate,
                ["POST"],
                body=record(
                    q=one_or_list(TEXT),
                    source=TEXT,
                    target=TEXT,
                    optional={
                        "api_key": TEXT,
                        "model": TEXT,
                        "format": choice(FORMATS),
                        "alternatives": integer_to(MAX_ALTERNATIVES),
                        "glossary": TERMS,
                    },
                ),
                answer=record(
                    translatedText=one_or_list(TEXT),
                    optional={"detectedLanguage": one_or_list(_DETECTED), "alternatives": LIST},
                ),
            ),
            Endpoint(
                "/detect",
                self.detect,
                ["POST"],
                body=record(q=one_or_list(TEXT), optional={"api_key": TEXT}),
                answer=list_of(_DETECTED),
            ),
            Endpoint("/languages", self.languages, answer=list_of(record(code=TEXT, name=TEXT, targets=list_of(TEXT)))),
            Endpoint(
                "/frontend/settings",
                self.frontend_settings,
                answer=record(
                    apiKeys=FLAG,
                    keyRequired=FLAG,
                    charLimit=INTEGER,
                    filesTranslation=FLAG,
                    supportedFilesFormat=list_of(TEXT),
                    suggestions=FLAG,
                    language={"type": "object"},
                ),
            ),
            Endpoint("/health", self.health, answer=record(status=TEXT)),
        ]

    async def translate(self, request: Request) -> Response:
        """Translate a text or a list of texts."""
        fields, client = await self._admit(request)
        texts = fields.texts("q")
        self._service.check_length(texts)
        count = fields.integer("alternatives", 0, maximum=MAX_ALTERNATIVES)
        is_html = fields.choice("format", FORMATS, "text") == "html"
        source, target, model = fields.text("source"), fields.text("target"), fields.text("model", "") or None
        direction, detected = self._service.detect_direction("\n".join(texts), source, target, model)
        glossary = await fields.terms("glossary")
        options = RequestOptions(client=client, alternatives=count, model=model, glossary=glossary)
        if is_html:
            work = self._service.translate_markup(texts, Html(), direction, options)
        else:
            work = self._service.translate_texts(texts, direction, options)
        results = await self._finish(request, work)
        self._service.log_texts(texts, [each.hyp for each in results])

        def shape(values: Sequence[Any]) -> Any:
            return list(values) if fields.is_list("q") else values[0]

        answer = {"translatedText": shape([each.hyp for each in results])}
        if detected is not None:
            answer["detectedLanguage"] = shape([_as_dict(detected)] * len(texts))
        if count:
            answer["alternatives"] = shape([list(each.alternatives) for each in results])
        return JSONResponse(answer)

    async def detect(self, request: Request) -> Response:
        """Detect the language of a text."""
        fields, _ = await self._admit(request)
        texts = fields.texts("q")
        self._service.check_length(texts)
        first, *others = self._service.detect("\n".join(texts))
        return JSONResponse([_as_dict(first), *(_as_dict(each) for each in others if each.confidence >= 1)])

    async def languages(self, request: Request) -> Response:
        """Languages of sources and of targets, each with those that it can be translated to, and itself."""
        registry = self._service.registry
        return JSONResponse(
            [
                {"code": code, "name": language_name(code), "targets": [code, *registry.targets[code]]}
                for code in registry.targets
            ]
        )

    async def frontend_settings(self, request: Request) -> Response:
        """Properties of the server."""
        settings = self._service.settings
        source = self._service.registry.sources[0]
        target = self._service.registry.targets[source][0]
        return JSONResponse(
            {
                "apiKeys": self._clients.needs_key,
                "keyRequired": self._clients.needs_key,
                "charLimit": settings.max_characters,
                "frontendTimeout": 300,
                "filesTranslation": True,
                "supportedFilesFormat": list(suffixes(lambda each: each.has_texts)),
                "suggestions": settings.suggestions is not None,
                "language": {
                    "source": {"code": source, "name": language_name(source)},
                    "target": {"code": target, "name": language_name(target)},
                },
            }
        )

    async def health(self, request: Request) -> Response:
        """State of the server.

        It answers, and no model has failed (503 otherwise).
        """
        if not (failed := self._service.registry.failures()):
            return JSONResponse({"status": "ok"})
        error = f"{', '.join(failed)}: cannot be started; the log says why"
        return JSONResponse({"status": "error", "error": error}, status_code=503)


def _as_dict(detected: DetectedLanguage) -> dict[str, Any]:
    return {"confidence": round(detected.confidence, 1), "language": detected.code}


MAX_TEXT = 2000  # characters
MAX_BYTES = 64 << 20  # of the file
TAIL_BYTES = 64 << 10  # more than a suggestion has
_END = b"</body></tmx>\n"
_HEADER = b'<?xml version="1.0" encoding="UTF-8"?>\n<tmx version="1.4"><header creationtool="mtkit" '
_BEGINNING = (
    _HEADER
    + f'creationtoolversion="{__version__}" segtype="sentence" o-tmf="mtkit" adminlang="en" srclang="*all*" '
    'datatype="plaintext"/><body>\n'.encode()
)


class Suggestions(Front):
    """The endpoint that takes suggestions, and their file, of which each line is whole at any time."""

    fields: ClassVar[Mapping[str, RequestField]] = {
        **SHARED_FIELDS,
        "q": RequestField("text", "The dog sleeps."),
        "s": RequestField("its translation", "Der Hund schläft."),
    }

    def __init__(self, path: Path, service: TranslationService, clients: Clients, note: Callable[[str], None]) -> None:
        """Open the file, which is begun if it does not exist, and repaired if its last line is torn.

        Raises:
            DataError: it is another file than this server writes.
            ReadWriteError: it cannot be written.
        """
        super().__init__(service, clients)
        self._path, self._note = path, note
        with translate_write_errors(path), self._open():
            pass

    def endpoints(self) -> list[Endpoint]:
        """The endpoint."""
        body = record(q=TEXT, s=TEXT, source=TEXT, target=TEXT, optional={"api_key": TEXT})
        answer = record(success=FLAG)
        return [Endpoint("/suggest", self.suggest, ["POST"], body=body, answer=answer, errors=[500, 507])]

    async def suggest(self, request: Request) -> Response:
        """Take a text `q` and its translation `s`."""
        fields, _ = await self._admit(request)
        texts = [" ".join(fields.text(name).split()) for name in ("q", "s")]
        if not all(0 < len(text) <= MAX_TEXT for text in texts):
            raise RequestError(400, f"q and s: texts of 1 to {MAX_TEXT:,} characters are expected")
        direction = self._service.find_direction(fields.text("source"), fields.text("target"))
        date = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%SZ")
        variants = "".join(
            f'<tuv xml:lang="{code}"><seg>{escape_xml(text)}</seg></tuv>'
            for code, text in zip(direction, texts, strict=True)
        )
        try:
            with self._open() as file:
                _append(file, f'<tu creationdate="{date}">{variants}</tu>\n'.encode())
        except DataError as error:
            self._note(str(error))
            raise RequestError(500, "the file of suggestions was changed by another program") from error
        except OSError as error:
            self._note(f"{self._path}: a suggestion was not stored: {error.strerror}")
            raise RequestError(507, "the suggestion cannot be stored; the log of the server says why") from error
        return JSONResponse({"success": True})

    @contextmanager
    def _open(self) -> Iterator[IO[bytes]]:
        """The file, which no other server changes meanwhile; begun or repaired where it needs that.

        Raises:
            DataError: it is another file.
            OSError: it cannot be read or written.
        """
        with os.fdopen(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666), "rb+", buffering=0) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            size = file.seek(0, os.SEEK_END)
            start = max(0, size - TAIL_BYTES)
            tail = os.pread(file.fileno(), TAIL_BYTES, start)
            if not tail.endswith(_END):
                self._repair(file, start, tail)
            yield file

    def _repair(self, file: IO[bytes], start: int, tail: bytes) -> None:
        """End a file whose last line is torn after its last whole suggestion; `tail` begins at `start`."""
        head = os.pread(file.fileno(), len(_BEGINNING), 0).rstrip(b"\0")
        cut = max((tail.rfind(mark) + len(mark) for mark in (b"</tu>", b"<body>") if mark in tail), default=0)
        torn = tail[cut:].rstrip(b"\0").removeprefix(b"\n")
        if head.startswith(_HEADER) and cut and (torn.startswith(b"<t") or _END.startswith(torn)):
            _write_end(file, start + cut, b"\n" + _END)
            self._note(f"{self._path}: the last line was torn; {len(torn):,} bytes of it were removed")
        elif _BEGINNING.startswith(head) and start + len(tail) <= len(_BEGINNING):
            _write_end(file, 0, _BEGINNING + _END)
        else:
            raise DataError(f"{self._path}: not a file of suggestions, which ends with </body></tmx>; name another one")


def _append(file: IO[bytes], entry: bytes) -> None:
    """Write an entry before the end of the file, which stays as it was if that fails.

    Raises:
        OSError: the disk is full, or the file too long.
    """
    size = file.seek(0, os.SEEK_END)
    if size > MAX_BYTES:
        raise OSError(errno.EFBIG, f"it has more than {MAX_BYTES >> 20} MiB; move it away")
    try:
        _write_end(file, size - len(_END), entry + _END)
    except OSError:
        os.ftruncate(file.fileno(), size)
        _write_end(file, size - len(_END), _END)  # over bytes that the file has, which takes no space
        raise


def _write_end(file: IO[bytes], position: int, content: bytes) -> None:
    """Replace what a file has from a position on; OSError if it cannot be written."""
    written = 0
    while written < len(content):
        written += os.pwrite(file.fileno(), content[written:], position + written)
    os.ftruncate(file.fileno(), position + written)
