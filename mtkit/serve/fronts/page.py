"""The page: its files, and translations by sentence with what it shows of them."""

from __future__ import annotations

import itertools
from pathlib import Path

from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response

from mtkit.serve.clients import RequestError
from mtkit.serve.core import LINE_END, RequestOptions
from mtkit.serve.fronts.front import FLAG, LIST, TERMS, TEXT, Endpoint, Front, choice, integer_to, list_of, record
from mtkit.serve.languages import RIGHT_TO_LEFT, normal_code
from mtkit.text.sentences import split_sentences

FOLDER = Path(__file__).parents[1] / "page"
FILES = ("style.css", "app.js", "view.js", "icon.svg")
NEXT_WORDS = 8
MAX_NUMBER = 1_000_000  # of a sentence


class Page(Front):
    """The page and what it asks for."""

    def endpoints(self) -> list[Endpoint]:
        """The endpoints."""
        beginning = {"api_key": TEXT, "beginning": TEXT}
        of_sentences = {"q": TEXT, **beginning, "glossary": TERMS, "sentence": integer_to(MAX_NUMBER)}
        sentence = record(source=TEXT, target=TEXT, alignment=LIST, confidence=LIST, terms=LIST, flags=list_of(TEXT))
        file_types = ("text/css", "text/javascript", "image/svg+xml")
        return [
            Endpoint("/", self.index, answer=TEXT, media_types=["text/html"]),
            Endpoint("/page/{name}", self.file, segments={"name": choice(FILES)}, answer=TEXT, media_types=file_types),
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
                body=record(q=TEXT, source=TEXT, target=TEXT, optional=beginning),
                answer=record(words=list_of(record(word=TEXT, translation=TEXT))),
            ),
        ]

    async def index(self, request: Request) -> Response:
        """The page."""
        return FileResponse(FOLDER / "index.html", headers={"Cache-Control": "no-cache"})

    async def file(self, request: Request) -> Response:
        """A file of the page."""
        name = request.path_params["name"]
        if name not in FILES:
            raise RequestError(404, "no such file")
        return FileResponse(FOLDER / name, headers={"Cache-Control": "no-cache"})

    async def sentences(self, request: Request) -> Response:
        """Translate sentence by sentence, with alignment and confidence.

        The confidence is that of words. The translation of sentence number `sentence` begins with `beginning`.
        """
        fields, client = await self._admit(request)
        text = fields.text("q", "")
        self._service.check_length([text])
        direction, detected = self._service.detect_direction(text, fields.text("source"), fields.text("target"))
        # the sentences of all lines, and the line ends; each has the white space before it
        parts = [([each] if index % 2 else split_sentences(each)) for index, each in enumerate(LINE_END.split(text))]
        lines = [*itertools.chain(*parts)] or [""]
        beginnings = [""] * len(lines)
        if (number := fields.integer("sentence", len(lines), maximum=MAX_NUMBER)) < len(lines):
            beginnings[number] = fields.text("beginning", "")
        options = RequestOptions(client=client, sentences=False, details=True, glossary=await fields.terms("glossary"))
        work = self._service.translate_lines(lines, direction, options, beginnings=beginnings)
        results = await self._finish(request, work)
        answer = [
            {
                "source": line,
                "target": result.hyp,
                "alignment": result.alignment,
                "confidence": result.confidence,
                "terms": result.terms,
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
        text = fields.text("q")
        self._service.check_length([text])
        direction = self._service.find_direction(fields.text("source"), fields.text("target"))
        options = RequestOptions(client=client, sentences=False, next_words=NEXT_WORDS)
        work = self._service.translate_lines([text], direction, options, beginnings=[fields.text("beginning", "")])
        (result,) = await self._finish(request, work)
        return JSONResponse({"words": [{"word": word, "translation": hyp} for word, hyp in result.next_words]})
