"""The interface of DeepL, version 2: texts, languages, usage, glossaries and documents.

Errors are `{"message": sentence}`. Texts are sentences with tags if `tag_handling` says so: tags of XML are all inline,
and those of `ignore_tags` keep their content.
"""

from __future__ import annotations

import asyncio
import datetime
import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from mtkit.documents.format import DocumentFormat
from mtkit.documents.formats.html import Html, InlineXml
from mtkit.documents.glossary import cells_of
from mtkit.errors import DataError
from mtkit.serve.clients import Clients, RequestError
from mtkit.serve.core import AUTO, LINE_END, Direction, RequestOptions, TranslationService
from mtkit.serve.fronts.document_jobs import DOWNLOAD, DocumentJobs, download_of
from mtkit.serve.fronts.front import (
    FILE,
    FLAG,
    INTEGER,
    SHARED_FIELDS,
    TEXT,
    Endpoint,
    Front,
    RequestField,
    choice,
    list_of,
    record,
)
from mtkit.serve.fronts.requests import MAX_TERMS, RequestFields, terms_as_json
from mtkit.text.language_tags import language_name


@dataclass(frozen=True)
class _Options:
    """Options of a request.

    Attributes:
        core: those that the models need.
        form: of texts with tags; None: texts have none.
        joins_lines: whether a line end is a space.
        direction: of the glossary; None: there is none.
    """

    core: RequestOptions
    form: DocumentFormat | None
    joins_lines: bool
    direction: Direction | None

    def check_glossary(self, direction: Direction) -> None:
        """Refuse a glossary of another direction."""
        if self.direction not in (None, direction):
            raise RequestError(400, f"glossary_id: it is not from {direction.source} to {direction.target}")


FORMALITIES = ("default", "more", "less", "prefer_more", "prefer_less")
UNSUPPORTED = ("more", "less")  # formalities
SPLITTING = ("0", "1", "nonewlines")
GLOSSARY_FORMATS = ("tsv", "csv")
GLOSSARY_TYPE = "text/tab-separated-values"
SIDES = ("source", "target")
NO_LIMIT = 1_000_000_000_000  # of the characters of a key, which DeepL's clients expect to be a number


class DeepL(Front):
    """Texts, languages, usage, glossaries and documents.

    Attributes:
        characters: that were translated since the server started.
    """

    prefix = "/v2/"
    title = "DeepL"
    fields: ClassVar[Mapping[str, RequestField]] = {
        **SHARED_FIELDS,
        "text": RequestField("list of texts", ["The dog sleeps."]),
        "source_lang": RequestField("language of the texts; without it, the language is detected", "{source}"),
        "target_lang": RequestField("language of the translation", "{target}"),
        "formality": RequestField("no effect: the models know no formality"),
        "split_sentences": RequestField("0: a text is one sentence; nonewlines: a line end is a space"),
        "tag_handling": RequestField("whether the texts have tags of XML or HTML, which keep their places"),
        "ignore_tags": RequestField("names of tags of XML whose content is not translated"),
        "glossary_id": RequestField("identifier of a glossary of the direction"),
        "context": RequestField("no effect: the models translate sentence by sentence"),
        "show_billed_characters": RequestField("whether the answer has the number of characters"),
        "type": RequestField("source or target languages", "target"),
        "name": RequestField("name of the glossary", "Animals"),
        "entries": RequestField("a term and its translation on each line", "dog\tHund"),
        "entries_format": RequestField("tsv: a tab stands between term and translation; csv: a comma"),
        "filename": RequestField("no effect: the file has its name"),
    }
    error_schema = "Message", record(message=TEXT)
    lists = ("text", "ignore_tags", "non_splitting_tags", "splitting_tags")

    def __init__(self, service: TranslationService, clients: Clients, jobs: DocumentJobs) -> None:
        super().__init__(service, clients)
        self._jobs, self._glossaries = jobs, Glossaries(service)
        self.characters = 0

    def error_body(self, error: RequestError) -> dict[str, Any]:
        """The body of an error."""
        return {"message": str(error)}

    def endpoints(self) -> list[Endpoint]:
        """The endpoints."""
        direction = {"source_lang": TEXT, "target_lang": TEXT}
        of_texts = {
            "source_lang": TEXT,
            "formality": choice(each for each in FORMALITIES if each not in UNSUPPORTED),
            "split_sentences": choice(SPLITTING),
            "tag_handling": choice(("xml", "html")),
            "ignore_tags": list_of(TEXT),
            "glossary_id": TEXT,
            "context": TEXT,
            "show_billed_characters": FLAG,
            "model": TEXT,
        }
        translation = record(detected_source_language=TEXT, text=TEXT, optional={"billed_characters": INTEGER})
        language = record(language=TEXT, name=TEXT, optional={"supports_formality": FLAG})
        glossary = record(glossary_id=TEXT, ready=FLAG, name=TEXT, **direction, creation_time=TEXT, entry_count=INTEGER)
        entries = record(name=TEXT, **direction, entries=TEXT, optional={"entries_format": choice(GLOSSARY_FORMATS)})
        of_file = {"source_lang": TEXT, "filename": TEXT, "glossary_id": TEXT, "model": TEXT}
        progress = {"billed_characters": INTEGER, "error_message": TEXT}
        state = record(document_id=TEXT, status=TEXT, optional=progress)
        both, usage = ("GET", "POST"), record(character_count=INTEGER, character_limit=INTEGER)
        return [
            Endpoint(
                "/v2/translate",
                self.translate,
                ["POST"],
                body=record(text=list_of(TEXT), target_lang=TEXT, optional=of_texts),
                answer=record(translations=list_of(translation)),
                errors=[404],
            ),
            Endpoint("/v2/languages", self.languages, both, query={"type": choice(SIDES)}, answer=list_of(language)),
            Endpoint("/v2/usage", self.usage, both, answer=usage),
            Endpoint(
                "/v2/glossary-language-pairs",
                self.glossary_pairs,
                answer=record(supported_languages=list_of(record(**direction))),
            ),
            Endpoint("/v2/glossaries", self.create_glossary, ["POST"], body=entries, answer=glossary, status=201),
            Endpoint("/v2/glossaries", self.list_glossaries, answer=record(glossaries=list_of(glossary))),
            Endpoint("/v2/glossaries/{identifier}", self.show_glossary, answer=glossary),
            Endpoint("/v2/glossaries/{identifier}", self.delete_glossary, ["DELETE"], answer=None, status=204),
            Endpoint(
                "/v2/glossaries/{identifier}/entries", self.glossary_entries, answer=TEXT, media_types=[GLOSSARY_TYPE]
            ),
            Endpoint(
                "/v2/document",
                self.start_document,
                ["POST"],
                body=record(file=FILE, target_lang=TEXT, optional=of_file),
                answer=record(document_id=TEXT, document_key=TEXT),
                errors=[404],
            ),
            Endpoint("/v2/document/{identifier}", self.document_state, both, answer=state),
            Endpoint(
                "/v2/document/{identifier}/result", self.document_result, both, answer=FILE, media_types=[DOWNLOAD]
            ),
        ]

    async def translate(self, request: Request) -> Response:
        """Translate texts."""
        fields, client = await self._admit(request)
        texts = fields.texts("text")
        self._service.check_length(texts)
        asked = self._read_options(fields, client)
        source, target = fields.text("source_lang", "") or AUTO, fields.text("target_lang")
        directions = [
            self._service.detect_direction(text, source, target, asked.core.model, passes_unread=True)[0]
            for text in texts
        ]
        for direction in directions:
            asked.check_glossary(direction)
        results: list[dict[str, Any]] = [{} for _ in texts]
        for direction in dict.fromkeys(directions):
            indices = [index for index, each in enumerate(directions) if each == direction]
            of_direction = [texts[index] for index in indices]
            if asked.form is not None:
                work = self._service.translate_markup(of_direction, asked.form, direction, asked.core)
            else:
                if asked.joins_lines:
                    of_direction = [" ".join(LINE_END.split(text)[::2]) for text in of_direction]
                work = self._service.translate_texts(of_direction, direction, asked.core)
            for index, result in zip(indices, await self._finish(request, work), strict=True):
                results[index] = {"detected_source_language": direction.source.upper(), "text": result.hyp}
                if fields.flag("show_billed_characters"):
                    results[index]["billed_characters"] = len(texts[index])
        self.characters += sum(map(len, texts))
        self._service.log_texts(texts, [each["text"] for each in results])
        return JSONResponse({"translations": results})

    def _read_options(self, fields: RequestFields, client: str) -> _Options:
        formality = fields.choice("formality", FORMALITIES, "default")
        if formality in UNSUPPORTED:
            raise RequestError(
                400, f"formality: {formality} is not supported by the models; prefer_{formality} is ignored"
            )
        handling = fields.choice("tag_handling", ("", "xml", "html"), "")
        splitting = fields.choice("split_sentences", SPLITTING, "nonewlines" if handling == "html" else "1")
        fields.text("context", "")  # it changes nothing for models of sentences
        glossary = self._glossaries.find(fields.text("glossary_id"), client) if "glossary_id" in fields else None
        ignored = fields.texts("ignore_tags") if "ignore_tags" in fields else []
        names = frozenset(name.strip() for each in ignored for name in each.split(","))
        return _Options(
            core=RequestOptions(
                client=client,
                sentences=splitting != "0",
                glossary="" if glossary is None else glossary.terms,
                model=fields.text("model", "") or None,
            ),
            form={"": None, "xml": InlineXml(names), "html": Html()}[handling],
            joins_lines=splitting != "1",
            direction=None if glossary is None else glossary.direction,
        )

    async def languages(self, request: Request) -> Response:
        """Languages of sources or of targets."""
        fields, _ = await self._admit(request)
        is_target = fields.choice("type", SIDES, "source") == "target"
        registry = self._service.registry
        targets = dict.fromkeys(code for each in registry.targets.values() for code in each)
        extra = {"supports_formality": False} if is_target else {}
        codes = targets if is_target else registry.sources
        return JSONResponse([{"language": code.upper(), "name": language_name(code), **extra} for code in codes])

    async def usage(self, request: Request) -> Response:
        """Characters translated since the server started; there is no limit."""
        await self._admit(request)
        return JSONResponse({"character_count": self.characters, "character_limit": NO_LIMIT})

    async def glossary_pairs(self, request: Request) -> Response:
        """Directions of the models, each of which may have glossaries."""
        await self._admit(request)
        pairs = [{"source_lang": src, "target_lang": tgt} for src, tgt in self._service.registry.directions]
        return JSONResponse({"supported_languages": pairs})

    async def create_glossary(self, request: Request) -> Response:
        """Store a glossary."""
        fields, client = await self._admit(request)
        return JSONResponse((await self._glossaries.create(fields, client)).as_dict(), status_code=201)

    async def list_glossaries(self, request: Request) -> Response:
        """Glossaries of the client."""
        _, client = await self._admit(request)
        return JSONResponse({"glossaries": [each.as_dict() for each in self._glossaries.of(client)]})

    async def show_glossary(self, request: Request) -> Response:
        """A glossary."""
        _, client = await self._admit(request)
        return JSONResponse(self._glossaries.find(request.path_params["identifier"], client).as_dict())

    async def glossary_entries(self, request: Request) -> Response:
        """Terms of a glossary."""
        _, client = await self._admit(request)
        terms = self._glossaries.find(request.path_params["identifier"], client).terms
        entries = "\n".join("\t".join(term) for term in json.loads(terms))
        return Response(entries, media_type=GLOSSARY_TYPE)

    async def delete_glossary(self, request: Request) -> Response:
        """Delete a glossary."""
        _, client = await self._admit(request)
        self._glossaries.delete(request.path_params["identifier"], client)
        return Response(status_code=204)

    async def start_document(self, request: Request) -> Response:
        """Begin to translate a document."""
        fields, client = await self._admit(request)
        asked = self._read_options(fields, client)
        source, target = fields.text("source_lang", "") or AUTO, fields.text("target_lang")
        direction = self._service.document_direction(source, target, asked.core.model)
        asked.check_glossary(direction)
        job = await self._jobs.start(fields.file("file"), direction, asked.core)
        return JSONResponse({"document_id": job.identifier, "document_key": job.identifier})

    async def document_state(self, request: Request) -> Response:
        """Progress of a document."""
        await self._admit(request)
        job = self._jobs.find(request.path_params["identifier"])
        state: dict[str, Any] = {
            "document_id": job.identifier,
            "status": "queued" if job.lines is None else "translating",
        }
        if job.error is not None:
            state |= {"status": "error", "error_message": job.error}
        elif job.is_done:
            state |= {"status": "done", "billed_characters": job.characters}
        return JSONResponse(state)

    async def document_result(self, request: Request) -> Response:
        """The translation of a document.

        It is deleted then.
        """
        await self._admit(request)
        job = self._jobs.find(request.path_params["identifier"])
        if not job.is_done:
            raise RequestError(503, job.error or "the document is not translated yet", retry_after=5)
        response = download_of(job)
        response.background = BackgroundTask(self._jobs.drop, job)
        return response


MAX_GLOSSARIES = 1000
MAX_BYTES = 64 << 20  # of all of them
SHARE = 4  # a client has at most this part of both
MAX_NAME = 200  # characters


@dataclass(frozen=True)
class StoredGlossary:
    """A glossary of a client, with its terms as JSON."""

    client: str
    name: str
    direction: Direction
    terms: str
    count: int
    identifier: str = field(default_factory=lambda: str(uuid.uuid4()))
    created: str = field(default_factory=lambda: datetime.datetime.now(datetime.UTC).isoformat())

    def as_dict(self) -> dict[str, Any]:
        """Its properties as DeepL names them."""
        return {
            "glossary_id": self.identifier,
            "ready": True,
            "name": self.name,
            "source_lang": self.direction.source,
            "target_lang": self.direction.target,
            "creation_time": self.created,
            "entry_count": self.count,
        }


class Glossaries:
    """All glossaries of a server; a client sees its own."""

    def __init__(self, service: TranslationService) -> None:
        self._service = service
        self._glossaries: dict[str, StoredGlossary] = {}

    async def create(self, fields: RequestFields, client: str) -> StoredGlossary:
        """Store the glossary of a request, which is read beside other work.

        Raises:
            RequestError: there are too many, or a field is wrong.
        """
        direction = self._service.find_direction(fields.text("source_lang"), fields.text("target_lang"))
        form = fields.choice("entries_format", GLOSSARY_FORMATS, "tsv")
        name, entries = fields.text("name")[:MAX_NAME], fields.text("entries")
        rows = await asyncio.to_thread(_parse, entries, is_tsv=form == "tsv")
        glossary = StoredGlossary(client, name, direction, await terms_as_json(rows), len(rows))
        groups = ("you have", SHARE, self.of(client)), ("the server has", 1, [*self._glossaries.values()])
        for whose, share, others in groups:
            num_bytes = sum(len(each.terms) for each in (*others, glossary))
            if len(others) >= MAX_GLOSSARIES // share or num_bytes > MAX_BYTES // share:
                raise RequestError(429, f"{whose} too many glossaries; delete some")
        self._glossaries[glossary.identifier] = glossary
        return glossary

    def of(self, client: str) -> list[StoredGlossary]:
        """The glossaries of a client."""
        return [each for each in self._glossaries.values() if each.client == client]

    def find(self, identifier: str, client: str) -> StoredGlossary:
        """A glossary of a client; RequestError with status 404 if there is none."""
        glossary = self._glossaries.get(identifier)
        if glossary is None or glossary.client != client:
            raise RequestError(404, "no such glossary")
        return glossary

    def delete(self, identifier: str, client: str) -> None:
        """Delete a glossary; errors as `find`."""
        del self._glossaries[self.find(identifier, client).identifier]


def _parse(entries: str, *, is_tsv: bool) -> list[tuple[str, str]]:
    """The terms of a glossary in text: a term and its translation on each line.

    Raises:
        RequestError: a line has another form, or there are no terms or too many.
    """
    rows = []
    for number, line in enumerate(entries.replace("\r\n", "\n").split("\n"), start=1):
        try:
            rows.append(cells_of(line, "\t" if is_tsv else ",", has_quotes=not is_tsv))
        except DataError as error:
            raise RequestError(400, f"entries: line {number}: {error}") from error
    rows = list(filter(any, rows))
    if not 0 < len(rows) <= MAX_TERMS or any(len(row) < 2 for row in rows):
        raise RequestError(400, f"entries: 1 to {MAX_TERMS:,} lines of a term and its translation are expected")
    return [(row[0], row[1]) for row in rows]  # a CSV of DeepL may name the languages behind them
