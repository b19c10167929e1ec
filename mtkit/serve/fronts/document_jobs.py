"""Translations of documents: uploaded files, their progress, and results under names that cannot be guessed.

`Files` has the endpoints of LibreTranslate's interface and of the page."""

from __future__ import annotations

import asyncio
import secrets
import shutil
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar

from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response

from mtkit.documents.format import document_suffix, suffixes
from mtkit.errors import MtkitError
from mtkit.io.files import remove_abandoned, temporary_beside
from mtkit.serve.clients import Clients, RequestError
from mtkit.serve.core import AUTO, DETECTED_CHARACTERS, Direction, RequestOptions, TranslationService
from mtkit.serve.fronts.exchange import body_of, while_connected
from mtkit.serve.fronts.front import (
    FILE,
    FLAG,
    IDENTIFIER,
    INTEGER,
    SHARED_FIELDS,
    TEXT,
    Endpoint,
    Front,
    RequestField,
    record,
)
from mtkit.serve.processes.messages import receive_async, send_async
from mtkit.serve.processes.pool import start_process

KEPT_SECONDS = 30 * 60
MAX_JOBS = 200  # documents that are not translated yet
MAX_JOBS_OF_CLIENT = 20
MAX_KEPT = 200  # translations, of which the oldest are deleted
MAX_KEPT_OF_CLIENT = 100
AT_ONCE = 2  # documents that are translated at a time
READING_SECONDS = 120  # that a document may be read and written, beside the translation of its lines
JOB_SECONDS = 6 * 3600  # of a document from its beginning on
CLOSING_SECONDS = 10  # for the documents that are being translated when the server ends
CHUNK = 1 << 20


@dataclass(eq=False)
class DocumentJob:
    """A document: what it is called, and how far its translation is.

    Attributes:
        name: of the uploaded file.
        output: file of the translation.
        output_name: of the translation.
        lines: number of its lines; None: not counted yet.
        translated: lines that are translated.
        error: why there is no translation.
        task: the translation.
        timer: after which it is deleted, once it is finished.
    """

    identifier: str
    client: str
    name: str
    source: Path
    output: Path
    output_name: str
    direction: Direction
    options: RequestOptions
    lines: int | None = None
    translated: int = 0
    error: str | None = None
    is_done: bool = False
    is_cancelled: bool = False
    characters: int = 0
    task: asyncio.Task[None] | None = None
    timer: asyncio.TimerHandle | None = None


class DocumentJobs:
    """The documents of a server, in a temporary folder that ends with it, or with the next server if it was killed."""

    def __init__(self, service: TranslationService) -> None:
        self._service = service
        place = Path(tempfile.gettempdir(), "mtkit-serve")
        remove_abandoned(place)
        self._folder = temporary_beside(place)
        shutil.rmtree(self._folder, ignore_errors=True)  # of a server in this process that could not start
        self._folder.mkdir(mode=0o700)
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._jobs: dict[str, DocumentJob] = {}

    async def start(self, upload: UploadFile, direction: Direction, options: RequestOptions) -> DocumentJob:
        """Begin to translate a file; the language of a source AUTO is detected in the text of the document.

        Raises:
            RequestError: its name is not that of a document, or there are too many.
        """
        name = PurePosixPath((upload.filename or "").replace("\\", "/")).name
        path = Path(name)
        suffix = document_suffix(path)
        if suffix not in suffixes(lambda each: each.has_texts):
            raise RequestError(400, f"file: {name[-40:]!r} is not the name of a document; see supportedFilesFormat")
        unfinished = [each.client for each in self._jobs.values() if each.timer is None]
        if len(unfinished) >= MAX_JOBS or unfinished.count(options.client) >= MAX_JOBS_OF_CLIENT:
            raise RequestError(429, "too many documents; try again later", retry_after=60)
        identifier, stem = secrets.token_urlsafe(24), path.stem[:80] or "document"
        folder = self._folder / identifier
        folder.mkdir()
        job = DocumentJob(
            identifier=identifier,
            client=options.client,
            name=f"{stem}{path.suffix}",
            source=folder / f"source{suffix}",
            output=folder / f"target{suffix}",
            output_name=f"{stem}.{direction.target}{path.suffix}",
            direction=direction,
            options=replace(options, details=True, is_patient=True),
        )
        self._jobs[identifier] = job
        try:
            with job.source.open("wb") as file:
                while chunk := await upload.read(CHUNK):
                    file.write(chunk)
        except BaseException:
            self.drop(job)
            raise
        job.task = asyncio.create_task(self._run(job))
        job.task.add_done_callback(lambda _: self._keep(job))
        return job

    def _keep(self, job: DocumentJob) -> None:
        """Keep a finished document for a time, and as many of its client and of all as there may be."""
        job.timer = asyncio.get_running_loop().call_later(KEPT_SECONDS, self.drop, job)
        kept = [each for each in self._jobs.values() if each.timer is not None]
        of_client = [each for each in kept if each.client == job.client]
        for old in {*kept[:-MAX_KEPT], *of_client[:-MAX_KEPT_OF_CLIENT]}:
            self.drop(old)

    def find(self, identifier: str) -> DocumentJob:
        """A document by its name; RequestError with status 404 if there is none."""
        if (job := self._jobs.get(identifier)) is None:
            raise RequestError(404, "no such document; documents are deleted after 30 minutes")
        return job

    async def finish(self, job: DocumentJob) -> None:
        """Wait for a translation; a client that goes meanwhile ends it.

        Raises:
            RequestError: there is none.
        """
        try:
            if job.task is not None:
                await asyncio.shield(job.task)
        except asyncio.CancelledError:
            job.is_cancelled = True
            raise
        if job.error is not None:
            raise RequestError(400, job.error)

    async def _run(self, job: DocumentJob) -> None:
        try:
            async with self._turns, asyncio.timeout(JOB_SECONDS):
                await self._translate(job)
            job.is_done = True
        except (MtkitError, RequestError) as error:
            job.error = str(error).replace(str(job.source), job.name).replace(str(job.output), job.output_name)
        except TimeoutError:
            job.error = f"{job.name}: its translation takes more than {JOB_SECONDS // 3600} hours; divide the document"
        except asyncio.CancelledError:
            job.error = f"{job.name} was not translated: the server has ended"
        except BaseException:
            job.error = f"{job.name} was not translated: an error of the server"
            raise
        finally:
            job.source.unlink(missing_ok=True)

    def _direction(self, job: DocumentJob, beginning: str) -> Direction:
        """The direction of a document, whose language may be that of its first texts; errors as `detect_direction`."""
        if job.direction.source != AUTO:
            return job.direction
        return self._service.detect_direction(beginning, *job.direction, job.options.model)[0]

    async def _translate(self, job: DocumentJob) -> None:
        """Translate a document, which another process reads and writes.

        Raises:
            RequestError: the document is refused, takes too long, or ends its process.
        """
        process, sock = start_process("mtkit.serve.processes.document")
        seconds = float(READING_SECONDS)

        async def receive() -> dict[str, Any]:
            nonlocal seconds
            begun = time.monotonic()
            try:
                async with asyncio.timeout(seconds):
                    message: dict[str, Any] = await receive_async(sock)
            except TimeoutError as error:
                reason = f"to read and write it takes more than {READING_SECONDS} s; divide the document"
                raise RequestError(400, f"{job.name}: {reason}") from error
            seconds -= time.monotonic() - begun
            return message

        try:
            settings = {
                "source": str(job.source),
                "output": str(job.output),
                "src_lang": job.direction.source,
                "tgt_lang": job.direction.target,
                "seconds": READING_SECONDS,
                "beginning": DETECTED_CHARACTERS,
            }
            await send_async(sock, settings)
            while "done" not in (message := await receive()):
                if job.is_cancelled:
                    raise RequestError(400, "the translation was cancelled")
                if "error" in message:
                    raise RequestError(400, message["error"])
                if "lines" in message:
                    job.lines, job.characters = message["lines"], message["characters"]
                    job.direction = self._direction(job, message["beginning"])
                    await send_async(sock, job.direction.source)
                    continue
                window = message["window"]
                results = await self._service.translate_lines(window, job.direction, job.options)
                job.translated += len(window)
                await send_async(sock, [[each.hyp, each.alignment, each.flags] for each in results])
        except (EOFError, OSError) as error:
            raise RequestError(400, f"{job.name}: the process that reads it has ended") from error
        finally:
            sock.close()
            process.kill()
            process.wait()

    def drop(self, job: DocumentJob) -> None:
        """Delete a document that is done."""
        if job.timer is not None:
            job.timer.cancel()
        self._jobs.pop(job.identifier, None)
        shutil.rmtree(self._folder / job.identifier, ignore_errors=True)

    async def close(self) -> None:
        """Finish the documents that are nearly translated, and delete all of them."""
        tasks = [job.task for job in self._jobs.values() if job.task is not None]
        for task in (await asyncio.wait(tasks, timeout=CLOSING_SECONDS))[1] if tasks else ():
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        shutil.rmtree(self._folder, ignore_errors=True)


HOUR = 3600.0  # of a document that the client waits for
DOWNLOAD = "application/octet-stream"


class Files(Front):
    """Documents in LibreTranslate's interface, and for the page with their progress."""

    title = "Documents"
    fields: ClassVar[Mapping[str, RequestField]] = {
        **SHARED_FIELDS,
        "name": RequestField("any name, with which a browser stores the file", "letter.txt"),
    }

    def __init__(self, service: TranslationService, clients: Clients, jobs: DocumentJobs) -> None:
        super().__init__(service, clients)
        self._jobs = jobs

    def endpoints(self) -> list[Endpoint]:
        """The endpoints."""
        optional = {"api_key": TEXT, "model": TEXT, "glossary": {**TEXT, "contentMediaType": "application/json"}}
        body = record(file=FILE, source=TEXT, target=TEXT, optional=optional)
        lines = {"type": ["integer", "null"]}
        state = record(id=TEXT, lines=lines, translated=INTEGER, done=FLAG, optional={"error": TEXT, "path": TEXT})
        url = record(translatedFileUrl=TEXT)
        return [
            Endpoint("/translate_file", self.translate_file, ["POST"], body=body, answer=url),
            Endpoint(
                "/download_file/{identifier}/{name}",
                self.download,
                segments={"name": {**IDENTIFIER, "pattern": r"^[\w.-]*\w$"}},
                answer=FILE,
                media_types=[DOWNLOAD],
            ),
            Endpoint("/documents", self.start, ["POST"], body=body, answer=state, status=202),
            Endpoint("/documents/{identifier}", self.progress, answer=state),
        ]

    async def translate_file(self, request: Request) -> Response:
        """Translate a document.

        The answer has the address of the translation.
        """
        job = await self._start(request)
        body_of(request).close()
        await while_connected(request, self._jobs.finish(job), timeout=HOUR)
        return JSONResponse({"translatedFileUrl": f"{request.base_url}{_path(job)}"})

    async def start(self, request: Request) -> Response:
        """Begin to translate a document.

        The answer comes at once.
        """
        return JSONResponse(_state(await self._start(request)), status_code=202)

    async def _start(self, request: Request) -> DocumentJob:
        fields, client = await self._admit(request)
        file, model = fields.file("file"), fields.text("model", "") or None
        direction = self._service.document_direction(fields.text("source"), fields.text("target"), model)
        options = RequestOptions(client=client, model=model, glossary=await fields.terms("glossary"))
        return await self._jobs.start(file, direction, options)

    async def progress(self, request: Request) -> Response:
        """Progress of a document."""
        return JSONResponse(_state(self._jobs.find(request.path_params["identifier"])))

    async def download(self, request: Request) -> Response:
        """The translation of a document."""
        job = self._jobs.find(request.path_params["identifier"])
        if not job.is_done:
            raise RequestError(404, job.error or "the document is not translated yet")
        return download_of(job)


def download_of(job: DocumentJob) -> FileResponse:
    """The file of a translation, which a browser stores and does not show."""
    return FileResponse(job.output, media_type=DOWNLOAD, filename=job.output_name)


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
