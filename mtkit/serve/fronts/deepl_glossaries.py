"""Glossaries of DeepL's interface: their store, and version 3, in which a glossary has dictionaries of directions.

They last until the server ends. Version 2 (deepl.py) shows those of one direction.
"""

from __future__ import annotations

import asyncio
import datetime
import json
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from mtkit.documents.glossary import cells_of
from mtkit.errors import DataError
from mtkit.serve.clients import Clients, RequestError
from mtkit.serve.core import Direction, TranslationService
from mtkit.serve.fronts.front import (
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

MAX_GLOSSARIES = 1000
MAX_BYTES = 64 << 20  # of all of them
SHARE = 4  # a client has at most this part of both
MAX_NAME = 200  # characters
GLOSSARY_FORMATS = ("tsv", "csv")
_TERMS = "dog\tHund"


class Dictionary(NamedTuple):
    """Terms of a direction as JSON, and their number."""

    terms: str
    num_terms: int

    def as_tsv(self) -> str:
        """A term and its translation on each line, with a tab between them."""
        return "\n".join("\t".join(term) for term in json.loads(self.terms))


@dataclass(eq=False)
class StoredGlossary:
    """A glossary of a client; whoever changes it over several steps holds its lock."""

    client: str
    name: str
    dictionaries: dict[Direction, Dictionary] = field(default_factory=dict)
    identifier: str = field(default_factory=lambda: str(uuid.uuid4()))
    created: str = field(default_factory=lambda: datetime.datetime.now(datetime.UTC).isoformat())
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Glossaries:
    """All glossaries of a server; a client sees its own."""

    def __init__(self, service: TranslationService) -> None:
        self._service = service
        self._glossaries: dict[str, StoredGlossary] = {}

    async def store(
        self, glossary: StoredGlossary, dictionaries: Iterable[RequestFields], *, keeps_terms: bool = False
    ) -> list[Direction]:
        """Store a glossary with the dictionaries of a request, which are read beside other work.

        Args:
            glossary: a new one, or one that is stored.
            dictionaries: each with its languages and entries.
            keeps_terms: whether terms of the glossary that the request does not name stay.

        Returns:
            The directions of the dictionaries.

        Raises:
            RequestError: there are too many glossaries, a field is wrong, or a stored glossary was deleted meanwhile;
                then nothing changes.
        """
        is_new = glossary.identifier not in self._glossaries
        async with glossary.lock:
            changed = await self._read(glossary, dictionaries, keeps_terms=keeps_terms)
            if not is_new:
                self.find(glossary.identifier, glossary.client)
            new = {**glossary.dictionaries, **changed}
            others = [each for each in self._glossaries.values() if each is not glossary]
            of_client = [each for each in others if each.client == glossary.client]
            for whose, share, present in (("you have", SHARE, of_client), ("the server has", 1, others)):
                stored = [dictionary for each in present for dictionary in each.dictionaries.values()]
                num_bytes = sum(len(each.terms) for each in (*stored, *new.values()))
                if len(present) >= MAX_GLOSSARIES // share or num_bytes > MAX_BYTES // share:
                    raise RequestError(429, f"{whose} too many glossaries; delete some")
            glossary.dictionaries = new
            self._glossaries[glossary.identifier] = glossary
        return [*changed]

    async def _read(
        self, glossary: StoredGlossary, dictionaries: Iterable[RequestFields], *, keeps_terms: bool
    ) -> dict[Direction, Dictionary]:
        """The dictionaries of a request; arguments and errors as `store`."""
        changed: dict[Direction, Dictionary] = {}
        for fields in dictionaries:
            direction = self._service.find_direction(fields.text("source_lang"), fields.text("target_lang"))
            is_tsv = fields.choice("entries_format", GLOSSARY_FORMATS, "tsv") == "tsv"
            rows = await asyncio.to_thread(_parse, fields.text("entries"), is_tsv=is_tsv)
            before = changed.get(direction, glossary.dictionaries.get(direction) if keeps_terms else None)
            if before is not None:
                rows = [*{**dict(json.loads(before.terms)), **dict(rows)}.items()]
            if len(rows) > MAX_TERMS:
                raise RequestError(400, f"entries: {len(rows):,} terms; a dictionary has at most {MAX_TERMS:,}")
            changed[direction] = Dictionary(await terms_as_json(rows), len(rows))
        return changed

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


def name_of(fields: RequestFields) -> str:
    """The name of the glossary of a request; RequestError if it has none."""
    return fields.text("name")[:MAX_NAME]


class DeepLFront(Front):
    """The part that both versions have: title, fields, errors, and glossaries."""

    title = "DeepL"
    error_schema = "Message", record(message=TEXT)
    fields: ClassVar[Mapping[str, RequestField]] = {
        **SHARED_FIELDS,
        "text": RequestField("list of texts", ["The dog sleeps."]),
        "source_lang": RequestField("language of the texts; without it, the language is detected", "{source}"),
        "target_lang": RequestField("language of the translation", "{target}"),
        "formality": RequestField("no effect: the models know no formality"),
        "split_sentences": RequestField("0 and nonewlines: a line end is a space"),
        "tag_handling": RequestField("whether the texts have tags of XML or HTML, which keep their places"),
        "ignore_tags": RequestField("names of tags of XML whose content is not translated"),
        "glossary_id": RequestField("identifier of a glossary of the direction"),
        "context": RequestField("no effect: the models translate sentence by sentence"),
        "show_billed_characters": RequestField("whether the answer has the number of characters"),
        "type": RequestField("source or target languages", "target"),
        "name": RequestField("name of the glossary", "Animals"),
        "entries": RequestField("a term and its translation on each line", _TERMS),
        "dictionaries": RequestField(
            "directions with their entries, as those of version 2",
            [{"source_lang": "{source}", "target_lang": "{target}", "entries": _TERMS}],
        ),
        "entries_format": RequestField("tsv: a tab stands between term and translation; csv: a comma"),
        "filename": RequestField("no effect: the file has its name"),
    }

    def __init__(self, service: TranslationService, clients: Clients, glossaries: Glossaries) -> None:
        super().__init__(service, clients)
        self._glossaries = glossaries

    def error_body(self, error: RequestError) -> dict[str, Any]:
        """The body of an error."""
        return {"message": str(error)}

    async def delete_glossary(self, request: Request) -> Response:
        """Delete a glossary."""
        _, client = await self._admit(request)
        self._glossaries.delete(request.path_params["identifier"], client)
        return Response(status_code=204)

    async def _find_glossary(self, request: Request) -> tuple[RequestFields, StoredGlossary]:
        """The fields of a request and the glossary of its path; errors as `Glossaries.find`."""
        fields, client = await self._admit(request)
        return fields, self._glossaries.find(request.path_params["identifier"], client)


class DeepLGlossaries(DeepLFront):
    """Version 3 of the glossaries."""

    prefix = "/v3/"

    def endpoints(self) -> list[Endpoint]:
        """The endpoints."""
        direction = {"source_lang": TEXT, "target_lang": TEXT}
        entries = record(**direction, entries=TEXT, optional={"entries_format": choice(GLOSSARY_FORMATS)})
        dictionary = record(**direction, entry_count=INTEGER)
        glossary = record(glossary_id=TEXT, name=TEXT, creation_time=TEXT, dictionaries=list_of(dictionary))
        path = "/v3/glossaries/{identifier}"
        change = record(optional={"name": TEXT, "dictionaries": list_of(entries)})
        return [
            Endpoint(
                "/v3/glossaries",
                self.create,
                ["POST"],
                body=record(name=TEXT, dictionaries=list_of(entries)),
                answer=glossary,
                status=201,
            ),
            Endpoint("/v3/glossaries", self.list_all, answer=record(glossaries=list_of(glossary))),
            Endpoint(path, self.show, answer=glossary),
            Endpoint(path, self.change, ["PATCH"], body=change, answer=glossary),
            Endpoint(path, self.delete_glossary, ["DELETE"], answer=None, status=204),
            Endpoint(f"{path}/entries", self.entries, query=direction, answer=record(dictionaries=list_of(entries))),
            Endpoint(f"{path}/dictionaries", self.replace, ["PUT"], body=entries, answer=dictionary),
            Endpoint(
                f"{path}/dictionaries", self.delete_dictionary, ["DELETE"], query=direction, answer=None, status=204
            ),
        ]

    async def create(self, request: Request) -> Response:
        """Store a glossary of several directions."""
        fields, client = await self._admit(request)
        glossary = StoredGlossary(client, name_of(fields))
        await self._glossaries.store(glossary, map(RequestFields, fields.records("dictionaries")))
        return JSONResponse(_as_dict(glossary), status_code=201)

    async def list_all(self, request: Request) -> Response:
        """Glossaries of the client."""
        _, client = await self._admit(request)
        return JSONResponse({"glossaries": [_as_dict(each) for each in self._glossaries.of(client)]})

    async def show(self, request: Request) -> Response:
        """A glossary."""
        _, glossary = await self._find_glossary(request)
        return JSONResponse(_as_dict(glossary))

    async def change(self, request: Request) -> Response:
        """Change the name of a glossary, or add terms to its dictionaries, in which the new ones win."""
        fields, glossary = await self._find_glossary(request)
        name = name_of(fields) if "name" in fields else glossary.name
        added = fields.records("dictionaries") if "dictionaries" in fields else []
        await self._glossaries.store(glossary, map(RequestFields, added), keeps_terms=True)
        glossary.name = name
        return JSONResponse(_as_dict(glossary))

    async def entries(self, request: Request) -> Response:
        """Terms of a direction of a glossary."""
        fields, glossary = await self._find_glossary(request)
        direction = self._direction(fields, glossary)
        languages = {"source_lang": direction.source, "target_lang": direction.target}
        entries = {"entries": glossary.dictionaries[direction].as_tsv(), "entries_format": "tsv"}
        return JSONResponse({"dictionaries": [{**languages, **entries}]})

    async def replace(self, request: Request) -> Response:
        """Replace the terms of a direction of a glossary, or add the direction."""
        fields, glossary = await self._find_glossary(request)
        (direction,) = await self._glossaries.store(glossary, [fields])
        return JSONResponse(dictionary_as_dict(direction, glossary.dictionaries[direction]))

    async def delete_dictionary(self, request: Request) -> Response:
        """Delete a direction of a glossary."""
        fields, glossary = await self._find_glossary(request)
        async with glossary.lock:
            del glossary.dictionaries[self._direction(fields, glossary)]
        return Response(status_code=204)

    def _direction(self, fields: RequestFields, glossary: StoredGlossary) -> Direction:
        """The direction that a request names; RequestError with status 404 if the glossary lacks it."""
        direction = self._service.find_direction(fields.text("source_lang"), fields.text("target_lang"))
        if direction not in glossary.dictionaries:
            raise RequestError(404, f"the glossary is not from {direction.source} to {direction.target}")
        return direction


def dictionary_as_dict(direction: Direction, dictionary: Dictionary) -> dict[str, Any]:
    """The languages of a dictionary and the number of its terms, as both versions name them."""
    return {"source_lang": direction.source, "target_lang": direction.target, "entry_count": dictionary.num_terms}


def _as_dict(glossary: StoredGlossary) -> dict[str, Any]:
    """The properties of a glossary as version 3 names them."""
    return {
        "glossary_id": glossary.identifier,
        "name": glossary.name,
        "creation_time": glossary.created,
        "dictionaries": [dictionary_as_dict(*each) for each in glossary.dictionaries.items()],
    }
