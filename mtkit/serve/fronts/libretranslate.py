"""The interface of LibreTranslate: translation, detection and languages; documents are in files.py.

Requests are JSON or forms, errors `{"error": sentence}`. Beyond LibreTranslate, `model` names one of several models of
a direction, and `glossary` (JSON) is a list of terms, each a list of the term and its allowed translations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mtkit.documents.choose import suffixes
from mtkit.documents.formats.html import Html
from mtkit.serve.clients import Clients
from mtkit.serve.core import DetectedLanguage, RequestOptions, TranslationService
from mtkit.serve.fronts.exchange import while_connected
from mtkit.serve.fronts.requests import admit
from mtkit.serve.languages import language_name

MAX_ALTERNATIVES = 10


class LibreTranslate:
    """Handlers of the routes."""

    def __init__(self, service: TranslationService, clients: Clients) -> None:
        self._service, self._clients = service, clients

    def routes(self) -> list[Route]:
        """The routes."""
        return [
            Route("/translate", self.translate, methods=["POST"]),
            Route("/detect", self.detect, methods=["POST"]),
            Route("/languages", self.languages, methods=["GET"]),
            Route("/frontend/settings", self.frontend_settings, methods=["GET"]),
            Route("/health", self.health, methods=["GET"]),
        ]

    async def translate(self, request: Request) -> Response:
        """Translate a text or a list of texts."""
        fields, client = await admit(request, self._clients)
        texts = fields.texts("q")
        self._service.check_length(texts)
        count = fields.integer("alternatives", 0, maximum=MAX_ALTERNATIVES)
        is_html = fields.choice("format", ("text", "html"), "text") == "html"
        source, target, model = fields.text("source"), fields.text("target"), fields.text("model", "") or None
        direction, detected = self._service.detect_direction("\n".join(texts), source, target, model)
        glossary = await fields.terms("glossary")
        options = RequestOptions(client=client, alternatives=count, model=model, glossary=glossary)
        if is_html:
            work = self._service.translate_markup(texts, Html(), direction, options)
        else:
            work = self._service.translate_texts(texts, direction, options)
        results = await while_connected(request, work, timeout=self._service.settings.timeout)
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
        """Languages that a text may be in."""
        fields, _ = await admit(request, self._clients)
        texts = fields.texts("q")
        self._service.check_length(texts)
        first, *others = self._service.detect("\n".join(texts))
        return JSONResponse([_as_dict(first), *(_as_dict(each) for each in others if each.confidence >= 1)])

    async def languages(self, request: Request) -> Response:
        """The languages, each with those that it can be translated to."""
        registry = self._service.registry
        return JSONResponse(
            [
                {"code": code, "name": language_name(code), "targets": [code, *registry.targets[code]]}
                for code in registry.sources
            ]
        )

    async def frontend_settings(self, request: Request) -> Response:
        """Properties of the server that a page shows."""
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
        """The state of the server: it answers, and no model has failed (503 otherwise)."""
        if not (failed := self._service.registry.failures()):
            return JSONResponse({"status": "ok"})
        error = f"{', '.join(failed)}: cannot be started; the log says why"
        return JSONResponse({"status": "error", "error": error}, status_code=503)


def _as_dict(detected: DetectedLanguage) -> dict[str, Any]:
    return {"confidence": round(detected.confidence, 1), "language": detected.code}
