"""Glossaries that clients have stored, until the server ends."""

from __future__ import annotations

import datetime
import uuid
from dataclasses import dataclass, field
from typing import Any

from mtkit.errors import DataError
from mtkit.serve.core import Direction, Terms, TranslationService
from mtkit.serve.fronts.requests import MAX_TERMS, RequestFields, check_terms
from mtkit.serve.request_error import RequestError
from mtkit.translate.fidelity.glossary import cells_of

MAX_GLOSSARIES = 1000
MAX_NAME = 200  # characters


@dataclass(frozen=True)
class StoredGlossary:
    """A glossary of a client."""

    client: str
    name: str
    direction: Direction
    terms: Terms
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
            "entry_count": len(self.terms),
        }


class Glossaries:
    """All glossaries of a server; a client sees its own."""

    def __init__(self, service: TranslationService) -> None:
        self._service = service
        self._glossaries: dict[str, StoredGlossary] = {}

    def create(self, fields: RequestFields, client: str) -> StoredGlossary:
        """Store the glossary of a request.

        Raises:
            RequestError: there are too many, or a field is wrong.
        """
        if len(self._glossaries) >= MAX_GLOSSARIES:
            raise RequestError(429, f"the server has {MAX_GLOSSARIES:,} glossaries; delete some")
        direction = self._service.find_direction(fields.text("source_lang"), fields.text("target_lang"))
        form = fields.choice("entries_format", ("tsv", "csv"), "tsv")
        terms = _parse(fields.text("entries"), is_tsv=form == "tsv")
        glossary = StoredGlossary(client, fields.text("name")[:MAX_NAME], direction, terms)
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


def _parse(entries: str, *, is_tsv: bool) -> Terms:
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
    terms = tuple((row[0], row[1]) for row in rows)  # a CSV of DeepL may name the languages behind them
    check_terms(terms)
    return terms
