"""The page: its files in the languages of the interface, and translations by sentence with what it shows of them."""

from __future__ import annotations

import html
import itertools
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import ClassVar

from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, Response

from mtkit import __version__
from mtkit.serve.clients import RequestError
from mtkit.serve.core import LINE_END, RequestOptions
from mtkit.serve.fronts.front import (
    FLAG,
    LIST,
    SHARED_FIELDS,
    TERMS,
    TEXT,
    Endpoint,
    Front,
    RequestField,
    choice,
    list_of,
    record,
)
from mtkit.serve.fronts.requests import RequestFields
from mtkit.text.language_tags import RIGHT_TO_LEFT, match_language, normal_code
from mtkit.text.sentences import split_sentences

FOLDER = Path(__file__).parents[1] / "page"
MEDIA_TYPES = {
    ".css": "text/css",
    ".js": "text/javascript",
    ".json": "application/json",
    ".svg": "image/svg+xml",
}  # of files of the page by the ends of their names
FILES = {path.name: path for path in sorted(FOLDER.rglob("*")) if path.suffix in MEDIA_TYPES}
LANGUAGES = {  # of the interface by code: the text of each key
    name.removesuffix(".json"): json.loads(path.read_text(encoding="utf-8"))
    for name, path in FILES.items()
    if path.suffix == ".json"
}
LANGUAGE_COOKIE = "mtkit_language"  # the language of the interface that a user has chosen
NEXT_WORDS = 8
_PLACE = re.compile(r"\{\{(\w+)\}\}")  # of a text in a file of HTML
_PREFERENCE = re.compile(r"\s*([\w-]+)\s*(?:;\s*q=([01](?:\.\d{0,3})?))?\s*")  # an entry of Accept-Language


class Page(Front):
    """The page and what it asks for."""

    title = "Page"
    fields: ClassVar[Mapping[str, RequestField]] = {
        **SHARED_FIELDS,
        "name": RequestField("name of a file of the page", "icon.svg"),
        "q": RequestField("text; a sentence for /next_words", "The dog sleeps."),
        "beginning": RequestField("beginning of the translation", ""),
        "choices": RequestField("beginnings that the translations of sentences must have, each with its source"),
    }

    def endpoints(self) -> list[Endpoint]:
        """The endpoints."""
        choices = list_of(record(source=TEXT, beginning=TEXT))
        of_sentences = {"q": TEXT, "api_key": TEXT, "model": TEXT, "glossary": TERMS, "choices": choices}
        sentence = record(
            **dict.fromkeys(("source", "target"), TEXT),
            **dict.fromkeys(("alignment", "confidence", "terms", "dropped", "invented"), LIST),
            flags=list_of(TEXT),
        )
        return [
            Endpoint("/", self.index, answer=TEXT, media_types=["text/html"]),
            Endpoint(
                "/page/{name}",
                self.file,
                segments={"name": choice(FILES)},
                answer={"type": ["string", "object"]},
                media_types=[*MEDIA_TYPES.values()],
            ),
            Endpoint(
                "/models", self.models, answer=list_of(record(name=TEXT, sources=list_of(TEXT), targets=list_of(TEXT)))
            ),
            Endpoint(
                "/sentences",
                self.sentences,
                ["POST"],
                body=record(source=TEXT, target=TEXT, optional=of_sentences),
                answer=record(
                    sentences=list_of(sentence),
                    source=TEXT,
                    detected={"type": ["number", "null"]},
                    rightToLeft=list_of(FLAG),
                ),
            ),
            Endpoint(
                "/next_words",
                self.next_words,
                ["POST"],
                body=record(
                    q=TEXT, source=TEXT, target=TEXT, optional={"api_key": TEXT, "model": TEXT, "beginning": TEXT}
                ),
                answer=record(words=list_of(record(word=TEXT, translation=TEXT))),
            ),
        ]

    async def index(self, request: Request) -> Response:
        """The page for people, in the language that its user has chosen, or that the browser prefers."""
        chosen = request.cookies.get(LANGUAGE_COOKIE, "")
        language = interface_language([chosen, *preferred_languages(request.headers.get("accept-language", ""))])
        texts = {**LANGUAGES[language], "language": language, "languages": " ".join(LANGUAGES), "version": __version__}
        page = (FOLDER / "index.html").read_text(encoding="utf-8")
        headers = {"Cache-Control": "no-cache", "Vary": "Accept-Language, Cookie", "Content-Language": language}
        return HTMLResponse(_PLACE.sub(lambda place: html.escape(texts[place[1]]), page), headers=headers)

    async def file(self, request: Request) -> Response:
        """A file of the page."""
        path = FILES.get(request.path_params["name"])
        if path is None:
            raise RequestError(404, "no such file")
        headers = {"Cache-Control": "no-cache"}
        return FileResponse(path, media_type=MEDIA_TYPES[path.suffix], headers=headers)

    async def models(self, request: Request) -> Response:
        """Models and adapters by the names that requests choose them by, each with its languages."""
        sides: dict[str, tuple[dict[str, None], dict[str, None]]] = {}
        for (source, target), hops in self._service.registry.directions.items():
            for hop in hops:
                sources, targets = sides.setdefault(hop.name, ({}, {}))
                sources[source] = targets[target] = None
        return JSONResponse(
            [{"name": name, "sources": [*each[0]], "targets": [*each[1]]} for name, each in sides.items()]
        )

    async def sentences(self, request: Request) -> Response:
        """Translate sentence by sentence, with alignment, confidence, and dropped and invented words.

        The confidence is that of words. `choices` has the beginnings that translations of some sentences must have.
        """
        fields, client = await self._admit(request)
        text, model = fields.text("q", ""), fields.text("model", "") or None
        self._service.check_length([text])
        source, target = fields.text("source"), fields.text("target")
        direction, detected = self._service.detect_direction(text, source, target, model)
        # the sentences of all lines, and the line ends; each has the white space before it
        parts = [([each] if index % 2 else split_sentences(each)) for index, each in enumerate(LINE_END.split(text))]
        lines = [*itertools.chain(*parts)] or [""]
        choices = map(RequestFields, fields.records("choices") if "choices" in fields else [])
        beginning_of = {each.text("source").strip(): each.text("beginning") for each in choices}
        beginnings = [beginning_of.get(line.strip(), "") for line in lines]
        glossary = await fields.terms("glossary")
        options = RequestOptions(client=client, sentences=False, details=True, glossary=glossary, model=model)
        work = self._service.translate_lines(lines, direction, options, beginnings=beginnings)
        results = await self._finish(request, work)
        answer = [
            {
                "source": line,
                "target": result.hyp,
                "alignment": result.alignment,
                "confidence": result.confidence,
                "terms": result.terms,
                "dropped": result.dropped,
                "invented": result.invented,
                "flags": result.flags,
            }
            for line, result in zip(lines, results, strict=True)
        ]
        return JSONResponse(
            {
                "sentences": answer,
                "source": direction.source,
                "detected": None if detected is None else round(detected.confidence, 1),
                "rightToLeft": [normal_code(code).partition("-")[0] in RIGHT_TO_LEFT for code in direction],
            }
        )

    async def next_words(self, request: Request) -> Response:
        """Words that may follow the beginning of a translation.

        The text is a sentence; each word comes with the translation that has it.
        """
        fields, client = await self._admit(request)
        text, model = fields.text("q"), fields.text("model", "") or None
        self._service.check_length([text])
        direction = self._service.find_direction(fields.text("source"), fields.text("target"), model)
        options = RequestOptions(client=client, sentences=False, next_words=NEXT_WORDS, model=model)
        work = self._service.translate_lines([text], direction, options, beginnings=[fields.text("beginning", "")])
        (result,) = await self._finish(request, work)
        return JSONResponse({"words": [{"word": word, "translation": hyp} for word, hyp in result.next_words]})


def preferred_languages(header: str) -> list[str]:
    """The languages of a header Accept-Language, the preferred one first, without entries of another form."""
    entries = [_PREFERENCE.fullmatch(each) for each in header[:1000].split(",")]
    weighted = [(float(entry[2] or 1), entry[1]) for entry in entries if entry is not None]
    return [code for weight, code in sorted(weighted, key=lambda each: -each[0]) if weight > 0]


def interface_language(codes: Iterable[str]) -> str:
    """The language of the interface that the first of some codes means for which there is one; English without one."""
    return next((match for code in codes if (match := match_language(code, LANGUAGES)) is not None), "en")
