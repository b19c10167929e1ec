"""The page: its files, and translations by sentence with what it shows of them."""

from __future__ import annotations

import itertools
from pathlib import Path

from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route

from mtkit.serve.clients import Clients
from mtkit.serve.core import LINE_END, RequestOptions, TranslationService
from mtkit.serve.fronts.exchange import while_connected
from mtkit.serve.fronts.requests import admit
from mtkit.serve.languages import RIGHT_TO_LEFT, normal_code
from mtkit.text.sentences import split_sentences

FOLDER = Path(__file__).parents[1] / "page"
FILES = ("style.css", "app.js", "view.js", "icon.svg")
NEXT_WORDS = 8


class Page:
    """Handlers of the routes."""

    def __init__(self, service: TranslationService, clients: Clients) -> None:
        self._service, self._clients = service, clients

    def routes(self) -> list[Route]:
        """The routes."""
        return [
            Route("/", self.index, methods=["GET"]),
            Route("/page/{name}", self.file, methods=["GET"]),
            Route("/sentences", self.sentences, methods=["POST"]),
            Route("/next_words", self.next_words, methods=["POST"]),
            Route("/spec", self.spec, methods=["GET"]),
        ]

    async def index(self, request: Request) -> Response:
        """The page."""
        return FileResponse(FOLDER / "index.html", headers={"Cache-Control": "no-cache"})

    async def file(self, request: Request) -> Response:
        """A file of the page."""
        name = request.path_params["name"]
        if name not in FILES:
            return JSONResponse({"error": "no such file"}, status_code=404)
        return FileResponse(FOLDER / name, headers={"Cache-Control": "no-cache"})

    async def spec(self, request: Request) -> Response:
        """The description of the interfaces, in the format of OpenAPI."""
        return FileResponse(Path(__file__).parent / "openapi.json")

    async def sentences(self, request: Request) -> Response:
        """Translate the sentences of a text, each with its alignment and the confidence of its words.

        The translation of sentence number `sentence` begins with `beginning`.
        """
        fields, client = await admit(request, self._clients)
        text = fields.text("q", "")
        self._service.check_length([text])
        direction, detected = self._service.detect_direction(text, fields.text("source"), fields.text("target"))
        lines = _sentences(text)
        beginnings = [""] * len(lines)
        if (number := fields.integer("sentence", len(lines), maximum=1_000_000)) < len(lines):
            beginnings[number] = fields.text("beginning", "")
        options = RequestOptions(client=client, sentences=False, details=True, glossary=await fields.terms("glossary"))
        work = self._service.translate_lines(lines, direction, options, beginnings=beginnings)
        results = await while_connected(request, work, timeout=self._service.settings.timeout)
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
                "rightToLeft": [_is_right_to_left(code) for code in direction],
            }
        )

    async def next_words(self, request: Request) -> Response:
        """Words that may follow the beginning of the translation of a sentence, each with the translation."""
        fields, client = await admit(request, self._clients)
        text = fields.text("q")
        self._service.check_length([text])
        direction = self._service.find_direction(fields.text("source"), fields.text("target"))
        options = RequestOptions(client=client, sentences=False, next_words=NEXT_WORDS)
        work = self._service.translate_lines([text], direction, options, beginnings=[fields.text("beginning", "")])
        (result,) = await while_connected(request, work, timeout=self._service.settings.timeout)
        return JSONResponse({"words": [{"word": word, "translation": hyp} for word, hyp in result.next_words]})


def _sentences(text: str) -> list[str]:
    """The sentences of all lines, and the line ends; each has the white space before it."""
    parts = [([each] if index % 2 else split_sentences(each)) for index, each in enumerate(LINE_END.split(text))]
    return [*itertools.chain(*parts)] or [""]


def _is_right_to_left(code: str) -> bool:
    return normal_code(code).partition("-")[0] in RIGHT_TO_LEFT
