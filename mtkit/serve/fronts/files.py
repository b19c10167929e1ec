"""Documents in the interface of LibreTranslate, and with their progress for the page."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route

from mtkit.serve.clients import Clients
from mtkit.serve.core import RequestOptions, TranslationService
from mtkit.serve.fronts.document_jobs import DocumentJob, DocumentJobs
from mtkit.serve.fronts.exchange import body_of, while_connected
from mtkit.serve.fronts.requests import admit
from mtkit.serve.request_error import RequestError

HOUR = 3600.0  # of a document that the client waits for


class Files:
    """Handlers of the routes."""

    def __init__(self, service: TranslationService, clients: Clients, jobs: DocumentJobs) -> None:
        self._service, self._clients, self._jobs = service, clients, jobs

    def routes(self) -> list[Route]:
        """The routes."""
        return [
            Route("/translate_file", self.translate_file, methods=["POST"]),
            Route("/download_file/{identifier}/{name}", self.download, methods=["GET"]),
            Route("/documents", self.start, methods=["POST"]),
            Route("/documents/{identifier}", self.progress, methods=["GET"]),
        ]

    async def translate_file(self, request: Request) -> Response:
        """Translate a document; the answer has the address of the translation."""
        job = await self._start(request)
        body_of(request).close()
        await while_connected(request, self._jobs.finish(job), timeout=HOUR)
        return JSONResponse({"translatedFileUrl": f"{request.base_url}{_path(job)}"})

    async def start(self, request: Request) -> Response:
        """Begin to translate a document; the answer comes at once."""
        return JSONResponse(_state(await self._start(request)), status_code=202)

    async def _start(self, request: Request) -> DocumentJob:
        fields, client = await admit(request, self._clients)
        file, model = fields.file("file"), fields.text("model", "") or None
        direction = self._service.document_direction(fields.text("source"), fields.text("target"), model)
        options = RequestOptions(client=client, model=model, glossary=await fields.terms("glossary"))
        return await self._jobs.start(file, direction, options)

    async def progress(self, request: Request) -> Response:
        """The progress of a document."""
        return JSONResponse(_state(self._jobs.find(request.path_params["identifier"])))

    async def download(self, request: Request) -> Response:
        """The translation of a document."""
        job = self._jobs.find(request.path_params["identifier"])
        if not job.is_done:
            raise RequestError(404, job.error or "the document is not translated yet")
        return download_of(job)


def download_of(job: DocumentJob) -> FileResponse:
    """The file of a translation, which a browser stores and does not show."""
    return FileResponse(job.output, media_type="application/octet-stream", filename=job.name)


def _path(job: DocumentJob) -> str:
    return f"download_file/{job.identifier}/translation{job.output.suffix}"


def _state(job: DocumentJob) -> dict[str, Any]:
    state: dict[str, Any] = {
        "id": job.identifier,
        "lines": job.lines,
        "translated": job.translated,
        "done": job.is_done,
    }
    if job.error is not None:
        state["error"] = job.error
    if job.is_done:
        state["path"] = _path(job)
    return state
