"""Translations of documents: uploaded files, their progress, and results under names that cannot be guessed."""

from __future__ import annotations

import asyncio
import itertools
import secrets
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from starlette.datastructures import UploadFile

from mtkit.documents.choose import format_of, is_document
from mtkit.documents.translate import translate_document
from mtkit.errors import MtkitError
from mtkit.io.temporary import remove_abandoned, temporary_beside
from mtkit.serve.core import AUTO, DETECTED_CHARACTERS, Direction, RequestOptions, TranslationService
from mtkit.serve.pieces import LineResult
from mtkit.serve.request_error import RequestError

KEPT_SECONDS = 30 * 60
MAX_JOBS = 200  # documents that are not translated yet
MAX_JOBS_OF_CLIENT = 20
MAX_KEPT = 200  # translations, of which the oldest are deleted
MAX_KEPT_OF_CLIENT = 100
AT_ONCE = 2  # documents that are translated at a time
WINDOW = 100  # lines of a document that wait in the queue together
CHUNK = 1 << 20


@dataclass(eq=False)
class DocumentJob:
    """A document: what it is called, and how far its translation is.

    Attributes:
        name: of the translation.
        output: its file.
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
        self._threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="mtkit-document")
        self._jobs: dict[str, DocumentJob] = {}

    async def start(self, upload: UploadFile, direction: Direction, options: RequestOptions) -> DocumentJob:
        """Begin to translate a file; the language of a source AUTO is detected in the text of the document.

        Raises:
            RequestError: its name is not that of a document, or there are too many.
        """
        name = PurePosixPath((upload.filename or "").replace("\\", "/")).name
        path = Path(name)
        if not is_document(path):
            raise RequestError(400, f"file: {name[-40:]!r} is not the name of a document; see supportedFilesFormat")
        unfinished = [each.client for each in self._jobs.values() if each.timer is None]
        if len(unfinished) >= MAX_JOBS or unfinished.count(options.client) >= MAX_JOBS_OF_CLIENT:
            raise RequestError(429, "too many documents; try again later", retry_after=60)
        identifier = secrets.token_urlsafe(24)
        folder = self._folder / identifier
        folder.mkdir()
        job = DocumentJob(
            identifier=identifier,
            client=options.client,
            name=f"{path.stem[:80] or 'document'}.{direction.target}{path.suffix}",
            source=folder / f"source{path.suffix.lower()}",
            output=folder / f"target{path.suffix.lower()}",
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
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(self._threads, self._translate, job, loop)
            job.is_done = True
        except (MtkitError, RequestError) as error:
            job.error = str(error).replace(str(job.source), job.name)
        except BaseException:
            job.error = f"{job.name} was not translated: an error of the server"
            raise
        finally:
            job.source.unlink(missing_ok=True)

    def _translate(self, job: DocumentJob, loop: asyncio.AbstractEventLoop) -> None:
        """Translate a document in a thread: first with its own lines, to count and to check it."""
        count = 0
        beginning: list[str] = []

        def counted(lines: Iterable[str]) -> Iterator[LineResult]:
            nonlocal count
            for line in lines:
                count += 1
                if job.characters < DETECTED_CHARACTERS:
                    beginning.append(line)
                job.characters += len(line)
                yield LineResult(hyp=line)

        def translated(lines: Iterable[str]) -> Iterator[LineResult]:
            source = iter(lines)
            while window := [*itertools.islice(source, WINDOW)]:
                if job.is_cancelled:
                    raise RequestError(400, "the translation was cancelled")
                work = self._service.translate_lines(window, job.direction, job.options)
                yield from asyncio.run_coroutine_threadsafe(work, loop).result()
                job.translated += len(window)

        for translate in (counted, translated):
            form = format_of(job.source, src_lang=job.direction.source, tgt_lang=job.direction.target)
            translate_document(job.source, job.output, form, translate)
            job.lines = count
            if job.direction.source == AUTO:
                job.direction, _ = self._service.detect_direction(
                    "\n".join(beginning), *job.direction, job.options.model
                )

    def drop(self, job: DocumentJob) -> None:
        """Delete a document that is done."""
        if job.timer is not None:
            job.timer.cancel()
        self._jobs.pop(job.identifier, None)
        shutil.rmtree(self._folder / job.identifier, ignore_errors=True)

    async def close(self) -> None:
        """Finish all documents and delete them."""
        tasks = [job.task for job in self._jobs.values() if job.task is not None]
        await asyncio.gather(*tasks, return_exceptions=True)
        self._threads.shutdown()
        shutil.rmtree(self._folder, ignore_errors=True)
