"""Documents of a server: those that end, or fail, count no longer, and their files go after a time."""

from __future__ import annotations

import asyncio
import io
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from starlette.datastructures import UploadFile

from mtkit.errors import ReadWriteError
from mtkit.serve.clients import RequestError
from mtkit.serve.core import Direction, LineResult, RequestOptions, TranslationService
from mtkit.serve.fronts import document_jobs
from mtkit.serve.fronts.document_jobs import DocumentJobs

DIRECTION, OPTIONS = Direction("en", "de"), RequestOptions(client="client")


class UpperCase:
    """A service that translates into upper-case letters, or fails."""

    error: Exception | None = None

    async def translate_lines(self, lines: Sequence[str], *_: Any) -> list[LineResult]:
        if self.error is not None:
            raise self.error
        return [LineResult(hyp=line.upper()) for line in lines]


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> UpperCase:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(document_jobs, "MAX_JOBS_OF_CLIENT", 1)
    return UpperCase()


def upload(text: bytes = b"a line\n") -> UploadFile:
    return UploadFile(io.BytesIO(text), filename="a.md")


def test_error_of_the_server_ends_a_document(service: UpperCase, tmp_path: Path) -> None:
    async def run() -> tuple[str | None, bytes]:
        jobs = DocumentJobs(cast(TranslationService, service))
        service.error = ValueError("an unknown case")
        failed = await jobs.start(upload(), DIRECTION, OPTIONS)
        with pytest.raises(ValueError, match="an unknown case"):
            await jobs.finish(failed)
        service.error = None
        job = await jobs.start(upload(), DIRECTION, OPTIONS)  # the place of the client is free
        await jobs.finish(job)
        output = job.output.read_bytes()
        service.error = ValueError("again")
        await jobs.start(upload(), DIRECTION, OPTIONS)
        await jobs.close()
        return failed.error, output

    error, output = asyncio.run(run())
    assert error == "a.md was not translated: an error of the server"
    assert output == b"A LINE\n"
    assert not [*tmp_path.glob("mtkit-serve*")]


def test_broken_upload_leaves_no_document(service: UpperCase, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: Any) -> bytes:
        raise OSError("connection lost")

    async def run() -> bytes:
        jobs = DocumentJobs(cast(TranslationService, service))
        with monkeypatch.context() as patch:
            patch.setattr(UploadFile, "read", broken)
            with pytest.raises(OSError, match="connection lost"):
                await jobs.start(upload(), DIRECTION, OPTIONS)
        job = await jobs.start(upload(), DIRECTION, OPTIONS)
        await jobs.finish(job)
        output = job.output.read_bytes()
        await jobs.close()
        return output

    assert asyncio.run(run()) == b"A LINE\n"


def test_200_documents_wait_and_no_more(service: UpperCase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document_jobs, "CLOSING_SECONDS", 0.01)
    monkeypatch.setattr(service, "translate_lines", lambda *_: asyncio.sleep(1000))

    async def run() -> None:
        jobs = DocumentJobs(cast(TranslationService, service))
        for number in range(200):
            await jobs.start(upload(), DIRECTION, RequestOptions(client=f"client {number}"))
        with pytest.raises(RequestError, match="too many documents; try again later"):
            await jobs.start(upload(), DIRECTION, RequestOptions(client="another client"))
        await jobs.close()

    asyncio.run(run())


def test_a_document_that_takes_too_long_is_refused(service: UpperCase, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop goes on meanwhile."""
    monkeypatch.setattr(document_jobs, "READING_SECONDS", 0.001)
    monkeypatch.setattr(document_jobs, "MAX_JOBS_OF_CLIENT", 2)

    async def run() -> int:
        jobs = DocumentJobs(cast(TranslationService, service))
        job = await jobs.start(upload(), DIRECTION, OPTIONS)
        with pytest.raises(RequestError, match=r"^a\.md: to read and write it takes more than 0\.001 s"):
            await jobs.finish(job)
        monkeypatch.setattr(document_jobs, "READING_SECONDS", 60)
        job = await jobs.start(upload(b"a line\n\n" * 2000), DIRECTION, OPTIONS)
        turns = 0
        while job.task is not None and not job.task.done():
            await asyncio.sleep(0.001)
            turns += 1
        assert (job.is_done, job.lines, job.translated) == (True, 2000, 2000)
        await jobs.close()
        return turns

    assert asyncio.run(run()) > 20


def test_an_error_of_writing_names_the_translation_and_no_folder_of_the_server(service: UpperCase) -> None:
    async def run() -> None:
        jobs = DocumentJobs(cast(TranslationService, service))
        job = await jobs.start(upload(), DIRECTION, OPTIONS)
        service.error = ReadWriteError(f"{job.output}: cannot be written: no space left on device")
        with pytest.raises(RequestError, match=r"^a\.de\.md: cannot be written: no space left on device$"):
            await jobs.finish(job)
        await jobs.close()

    asyncio.run(run())


def test_the_end_of_a_server_ends_its_documents(service: UpperCase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document_jobs, "CLOSING_SECONDS", 0.01)

    async def run() -> str | None:
        jobs = DocumentJobs(cast(TranslationService, service))
        monkeypatch.setattr(service, "translate_lines", lambda *_: asyncio.sleep(1000))
        job = await jobs.start(upload(), DIRECTION, OPTIONS)
        while job.lines is None:
            await asyncio.sleep(0.01)
        await jobs.close()
        return job.error

    assert asyncio.run(run()) == "a.md was not translated: the server has ended"


@pytest.mark.whole
def test_finished_documents_take_no_place_and_are_deleted_by_a_timer(
    service: UpperCase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(document_jobs, "KEPT_SECONDS", 0.05)

    async def run() -> tuple[int, int]:
        jobs = DocumentJobs(cast(TranslationService, service))
        kept = []
        for _ in range(5):  # with one place
            kept.append(await jobs.start(upload(), DIRECTION, OPTIONS))
            await jobs.finish(kept[-1])
        before = len([*tmp_path.rglob("target.md")])
        while any(job.output.exists() for job in kept):  # nobody asks for them
            await asyncio.sleep(0.01)
        with pytest.raises(RequestError, match="no such document"):
            jobs.find(kept[0].identifier)
        folders = len([*tmp_path.glob(".mtkit-serve.*/*")])
        await jobs.close()
        return before, folders

    before, folders = asyncio.run(run())
    assert before >= 1
    assert folders == 0


@pytest.mark.whole
def test_documents_beyond_those_of_a_client_replace_its_own(
    service: UpperCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(document_jobs, "MAX_KEPT_OF_CLIENT", 3)

    async def run() -> list[bool]:
        jobs = DocumentJobs(cast(TranslationService, service))
        other = await jobs.start(upload(), DIRECTION, RequestOptions(client="other"))
        await jobs.finish(other)
        mine = []
        for _ in range(6):
            mine.append(await jobs.start(upload(), DIRECTION, OPTIONS))
            await jobs.finish(mine[-1])
        await asyncio.sleep(0)
        exist = [job.output.exists() for job in (other, *mine)]
        await jobs.close()
        return exist

    assert asyncio.run(run()) == [True, False, False, False, True, True, True]
