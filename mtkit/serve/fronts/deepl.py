"""The interface of DeepL, version 2: texts, languages, usage, glossaries and documents.

Errors are `{"message": sentence}`. Texts are sentences with tags if `tag_handling` says so: tags of XML are all inline,
and those of `ignore_tags` keep their content.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from mtkit.documents.format import DocumentFormat
from mtkit.documents.formats.html import Html, InlineXml
from mtkit.serve.clients import Clients, RequestError
from mtkit.serve.core import AUTO, LINE_END, Direction, RequestOptions, TranslationService
from mtkit.serve.fronts.deepl_glossaries import (
    GLOSSARY_FORMATS,
    DeepLFront,
    Dictionary,
    Glossaries,
    StoredGlossary,
    dictionary_as_dict,
    name_of,
)
from mtkit.serve.fronts.document_jobs import DOWNLOAD, DocumentJobs, download_of
from mtkit.serve.fronts.front import (
    FILE,
    FLAG,
    INTEGER,
    TEXT,
    Endpoint,
    choice,
    list_of,
    record,
)
from mtkit.serve.fronts.requests import RequestFields
from mtkit.text.language_tags import language_name


@dataclass(frozen=True)
class _Options:
    """Options of a request.

    Attributes:
        core: those that the models need, without the glossary.
        form: of texts with tags; None: texts have none.
        joins_lines: whether a line end is a space.
        glossary: of the request; None: there is none.
    """

    core: RequestOptions
    form: DocumentFormat | None
    joins_lines: bool
    glossary: StoredGlossary | None

    def of(self, direction: Direction) -> RequestOptions:
        """Options of texts of a direction; RequestError if the glossary has none."""
        if self.glossary is None:
            return self.core
        if direction.source == AUTO:
            raise RequestError(400, "source_lang is missing, which a glossary needs")
        if direction not in self.glossary.dictionaries:
            raise RequestError(400, f"glossary_id: it is not from {direction.source} to {direction.target}")
        return replace(self.core, glossary=self.glossary.dictionaries[direction].terms)


FORMALITIES = ("default", "more", "less", "prefer_more", "prefer_less")
UNSUPPORTED = ("more", "less")  # formalities
SPLITTING = ("0", "1", "nonewlines")
GLOSSARY_TYPE = "text/tab-separated-values"
SIDES = ("source", "target")
NO_LIMIT = 1_000_000_000_000  # of the characters of a key, which DeepL's clients expect to be a number


class DeepL(DeepLFront):
    """Texts, languages, usage, glossaries and documents.

    Attributes:
        characters: that were translated since the server started.
    """

    prefix = "/v2/"
    lists = ("text", "ignore_tags", "non_splitting_tags", "splitting_tags")

    def __init__(
        self, service: TranslationService, clients: Clients, jobs: DocumentJobs, glossaries: Glossaries
    ) -> None:
        super().__init__(service, clients, glossaries)
        self._jobs = jobs
        self.characters = 0

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
        options = {direction: asked.of(direction) for direction in directions}
        results: list[dict[str, Any]] = [{} for _ in texts]
        for direction, core in options.items():
            indices = [index for index, each in enumerate(directions) if each == direction]
            of_direction = [texts[index] for index in indices]
            if asked.form is not None:
                work = self._service.translate_markup(of_direction, asked.form, direction, core)
            else:
                if asked.joins_lines:
                    of_direction = [" ".join(LINE_END.split(text)[::2]) for text in of_direction]
                work = self._service.translate_texts(of_direction, direction, core)
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
            core=RequestOptions(client=client, sentences=splitting != "0", model=fields.text("model", "") or None),
            form={"": None, "xml": InlineXml(names), "html": Html()}[handling],
            joins_lines=splitting != "1",
            glossary=glossary,
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
        glossary = StoredGlossary(client, name_of(fields))
        await self._glossaries.store(glossary, [fields])
        return JSONResponse(_as_dict(glossary), status_code=201)

    async def list_glossaries(self, request: Request) -> Response:
        """Glossaries of the client that have one direction."""
        _, client = await self._admit(request)
        of_client = self._glossaries.of(client)
        return JSONResponse({"glossaries": [_as_dict(each) for each in of_client if len(each.dictionaries) == 1]})

    async def show_glossary(self, request: Request) -> Response:
        """A glossary."""
        _, glossary = await self._find_glossary(request)
        return JSONResponse(_as_dict(glossary))

    async def glossary_entries(self, request: Request) -> Response:
        """Terms of a glossary."""
        _, glossary = await self._find_glossary(request)
        _, dictionary = _only(glossary)
        return Response(dictionary.as_tsv(), media_type=GLOSSARY_TYPE)

    async def start_document(self, request: Request) -> Response:
        """Begin to translate a document."""
        fields, client = await self._admit(request)
        asked = self._read_options(fields, client)
        source, target = fields.text("source_lang", "") or AUTO, fields.text("target_lang")
        direction = self._service.document_direction(source, target, asked.core.model)
        job = await self._jobs.start(fields.file("file"), direction, asked.of(direction))
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


def _only(glossary: StoredGlossary) -> tuple[Direction, Dictionary]:
    """The direction and the dictionary of a glossary; RequestError if it has not one, as version 3 allows."""
    if len(glossary.dictionaries) != 1:
        raise RequestError(400, "the glossary has not one direction; /v3/glossaries shows it")
    return next(iter(glossary.dictionaries.items()))


def _as_dict(glossary: StoredGlossary) -> dict[str, Any]:
    """The properties of a glossary of one direction."""
    return {
        "glossary_id": glossary.identifier,
        "ready": True,
        "name": glossary.name,
        "creation_time": glossary.created,
        **dictionary_as_dict(*_only(glossary)),
    }
