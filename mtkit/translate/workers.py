"""Several processes that translate side by side, each with one thread and a translator of its own."""

from __future__ import annotations

import gc
import multiprocessing
import signal
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self, TypeVar

import torch

from mtkit.errors import MtkitError, ReadWriteError
from mtkit.translate.constraints import Line
from mtkit.translate.translator import Translation, TranslationOptions, Translator, windows

T = TypeVar("T")
CHUNK = 512  # lines given to a worker at a time: enough to be sorted by length, and to share work out evenly
AHEAD = 3  # chunks for each worker that may be finished before their turn
# Text that pays for a worker's start of two to three seconds: 4,000 lines of captions. On two cores two workers of one
# thread were 1.2 (beam 5) to 1.3 times (greedy) as fast as one of two threads, model T in float32.
BYTES_EACH = 250_000


class Answer(NamedTuple):
    """What a worker says of its lines: the translations of all, or of the first of them and why there are no more."""

    translations: list[Translation]
    failure: Exception | None = None


class WorkerPool:
    """Translates as a Translator does, line for line and in order: `with WorkerPool(make, 4) as pool: ...`.

    A worker ends when its pipe closes, and that happens in whatever way this process ends.
    """

    def __init__(self, make: Callable[[], Translator], workers: int, *, flush_every: int | None = None) -> None:
        """Start the processes.

        Args:
            make: builds the translator in each process; must survive being sent there (a function of a module with
                arguments bound by functools.partial).
            workers: number of processes.
            flush_every: lines after which translations appear, as in TranslationOptions.
        """
        self.options = TranslationOptions(window=CHUNK, flush_every=flush_every)
        context = multiprocessing.get_context("spawn")
        self._processes: list[BaseProcess] = []
        self._pipes: list[Connection] = []
        for _ in range(workers):
            ours, theirs = context.Pipe()
            process = context.Process(target=_work, args=(theirs, make), daemon=True)
            process.start()
            theirs.close()
            self._processes.append(process)
            self._pipes.append(ours)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the processes; what they are working on is lost."""
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            process.terminate()
            process.join()

    def translate(self, lines: Iterable[Line], *, first: int = 1) -> Iterator[Translation]:
        """See Translator.translate.

        Raises:
            ReadWriteError: the operating system ended a worker.
            RuntimeError, MemoryError: as a worker raised it, when memory is used up or by a fault of ours.
        """
        chunks = windows(lines, self.options)
        idle = deque(self._pipes)
        busy: dict[Connection, int] = {}
        done: dict[int, Answer] = {}
        sent = given = 0  # chunks
        reading = True
        error: MtkitError | None = None
        while reading or given < sent:
            while reading and idle and sent - given < AHEAD * len(self._pipes):
                window, error = next(chunks, ([], None))
                reading = bool(window) and error is None
                if window:
                    pipe = idle.popleft()
                    self._send(pipe, (window, first))
                    busy[pipe], sent, first = sent, sent + 1, first + len(window)
            ready = set(wait(busy)) if busy else set()
            for pipe in [pipe for pipe in busy if pipe in ready]:
                answer = done[busy.pop(pipe)] = self._receive(pipe)
                reading = reading and answer.failure is None  # what comes before it is given, and then it is raised
                idle.append(pipe)
            while given in done:
                translations, failure = done.pop(given)
                yield from translations
                if failure is not None:
                    raise failure
                given += 1
        if error is not None:
            raise error

    def _send(self, pipe: Connection, work: tuple[list[Line], int]) -> None:
        try:
            pipe.send(work)
        except OSError as error:
            raise self._lost(pipe) from error

    def _receive(self, pipe: Connection) -> Answer:
        try:
            answer: Answer = pipe.recv()
        except (EOFError, OSError):
            return Answer([], self._lost(pipe))
        return answer

    def _lost(self, pipe: Connection) -> ReadWriteError:
        process = self._processes[self._pipes.index(pipe)]
        process.join(timeout=5)
        return ReadWriteError(
            f"a worker process ended with code {process.exitcode} (-9: the memory was used up); use fewer workers"
        )


def workers_for(file: Path, device: str | None) -> int:
    """How many processes are worth starting for a text: one on a GPU, or where nobody knows how long the text is."""
    if device not in (None, "cpu") or torch.cuda.is_available() or not file.is_file():
        return 1
    return max(1, min(torch.get_num_threads(), file.stat().st_size // BYTES_EACH))


@contextmanager
def translating(
    make: Callable[[], Translator], workers: int, *, flush_every: int | None = None
) -> Iterator[Callable[..., Iterator[Translation]]]:
    """What translates lines as Translator.translate does: one translator here, or several processes side by side."""
    if workers == 1:
        translator = make()
        _spare_the_collector()
        yield translator.translate
        return
    with WorkerPool(make, workers, flush_every=flush_every) as pool:
        yield pool.translate


def _work(pipe: Connection, make: Callable[[], Translator]) -> None:
    """A worker's life: translate what comes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interruption means
    torch.set_num_threads(1)
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):  # nobody is there any more
        made, failure = _attempt(make() for _ in range(1))
        _spare_the_collector()
        while True:
            window, first = pipe.recv()
            if made:
                pipe.send(Answer(*_attempt(made[0].translate(window, first=first))))
            else:
                pipe.send(Answer([], failure))


def _spare_the_collector() -> None:
    """What is there now will not be looked through for garbage: that was 3% of the time of greedy search."""
    gc.collect()
    gc.freeze()


def _attempt(items: Iterable[T]) -> tuple[list[T], Exception | None]:
    """The items, as far as they come, and what ended them."""
    found: list[T] = []
    try:
        found.extend(items)
    except MtkitError as error:
        return found, error
    except (RuntimeError, MemoryError) as error:  # who started us knows whether this means that memory is used up
        error.add_note(traceback.format_exc())
        return found, error
    return found, None
