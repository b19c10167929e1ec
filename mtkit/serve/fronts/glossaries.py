"""Glossaries that clients have stored, until the server ends."""

from __future__ import annotations

import asyncio
import datetime
import uuid
from dataclasses import dataclass, field
from typing import Any

from mtkit.documents.glossary import cells_of
from mtkit.errors import DataError
from mtkit.serve.core import Direction, TranslationService
from mtkit.serve.fronts.requests import MAX_TERMS, RequestFields, terms_as_json
from mtkit.serve.request_error import RequestError

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
        form = fields.choice("entries_format", ("tsv", "csv"), "tsv")
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
