"""Worker processes that translate in parallel with one thread each.

On Linux this process loads the translator, and the workers are copies of it (fork): they start in milliseconds and
share the memory of the weights. On a GPU and with engines of other programs, whose threads and handles a copy would
lack, that translator is dropped again, and each worker is a new process that loads its own, as on other systems.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import sys
import traceback
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, NoReturn, Protocol, Self, TypeVar

from mtkit.errors import MtkitError, ReadWriteError, UsageError
from mtkit.hardware import num_threads, one_thread, runs_on_cpu, set_num_threads
from mtkit.signals import blocked_in_workers
from mtkit.translate.lines import Line, read_windows
from mtkit.translate.translation import Translation, TranslationOptions

T = TypeVar("T")
W = TypeVar("W", bound=Hashable)
CHUNK_LINES = 512  # lines sent to a worker at a time: enough to sort by length, few enough to balance the load
MAX_WORKERS_PER_CORE = 16  # more only take memory, and hundreds of them minutes to start
MAX_PENDING = 3  # chunks per worker that may be read ahead of the next one to be returned
FORKS = sys.platform == "linux"  # where copies of a process that has loaded torch are known to work
# Text for which a worker is worth its start: 600 lines of captions, more than a chunk, for a copy; 4,000 for a process
# that loads torch and model in two to three seconds. Measured: see tools/benchmarks/NOTES.md.
BYTES_PER_WORKER = 40_000 if FORKS else 250_000


class LineTranslator(Protocol):
    """A Translator, or several that are one to their caller (AdaptedTranslators)."""

    @property
    def compute_type(self) -> str:
        """The number format, with `auto` resolved."""

    @property
    def can_fork(self) -> bool:
        """See Engine."""

    def translate(self, lines: Iterable[Line], *, first: int = 1) -> Iterator[Translation]:
        """See Translator."""


# translations of a chunk of lines; after an error, those of the lines before it, and the error
WorkerResult = tuple[list[Translation], Exception | None]


class Pool(Generic[W]):
    """Workers with the interface of a Translator, each of which translates a chunk of lines at a time.

    Attributes:
        options: of the windows in which lines are read.
    """

    def __init__(self, num_workers: int, flush_every: int | None) -> None:
        self.options = _pool_options(num_workers, flush_every)
        self._workers: list[W] = []
        self._unread: set[W] = set()  # with an answer to come

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the workers; unfinished work is lost."""
        raise NotImplementedError

    def _send(self, worker: W, work: tuple[list[Line], int]) -> None:
        """Give an idle worker lines and the number of the first one."""
        raise NotImplementedError

    def _wait(self, workers: Iterable[W]) -> set[W]:
        """Wait until at least one of these busy workers is done; return those that are."""
        raise NotImplementedError

    def _receive(self, worker: W) -> WorkerResult:
        """The answer of a worker, which is idle then."""
        raise NotImplementedError

    def translate(self, lines: Iterable[Line], *, first: int = 1) -> Iterator[Translation]:
        """See Translator.translate; one call at a time.

        With `flush_every` the workers share each window of as many lines, and no line is read before all of them are
        translated.

        Raises:
            ReadWriteError: a worker ended.
            RuntimeError, MemoryError: raised by a worker: out of memory, or an internal error.
        """
        windows = read_windows(lines, self.options)
        if self.options.flush_every is None:
            yield from self._translate_chunks(windows, first)
            return
        for window, error in windows:
            size = -(-len(window) // len(self._workers))
            chunks = (window[start : start + size] for start in range(0, len(window), size or 1))
            yield from self._translate_chunks(((chunk, None) for chunk in chunks), first)
            first += len(window)
            if error is not None:
                raise error

    def _translate_chunks(
        self, chunks: Iterator[tuple[list[Line], MtkitError | None]], first: int
    ) -> Iterator[Translation]:
        """Translate chunks of lines, each by one worker; the last chunk may come with the error that ended reading."""
        for worker in list(self._unread):  # answers to a call that was not read to its end
            self._receive(worker)
        idle = deque(self._workers)
        busy: dict[W, int] = {}
        done: dict[int, WorkerResult] = {}
        sent = returned = 0  # chunks
        reading = True
        read_error: MtkitError | None = None
        while reading or returned < sent:
            # Keep the workers busy, within a limit on the chunks that wait for a slow one before them.
            while reading and idle and sent - returned < MAX_PENDING * len(self._workers):
                window, read_error = next(chunks, ([], None))
                reading = bool(window) and read_error is None
                if window:
                    worker = idle.popleft()
                    self._send(worker, (window, first))
                    busy[worker], sent, first = sent, sent + 1, first + len(window)
            ready = self._wait(busy) if busy else set()
            for worker in [worker for worker in busy if worker in ready]:
                result = done[busy.pop(worker)] = self._receive(worker)
                reading = reading and result[1] is None  # an error is raised after the translations before it
                idle.append(worker)
            while returned in done:
                translations, error = done.pop(returned)
                yield from translations
                if error is not None:
                    raise error
                returned += 1
        if read_error is not None:
            raise read_error


class Cluster(Protocol):
    """Machines that translate instead of this one, such as RayCluster."""

    def pool(self, load: Callable[[], LineTranslator], *, flush_every: int | None = None) -> Pool[Any]:
        """Workers on the machines."""


class WorkerPool(Pool[Connection]):
    """A pool of workers with the interface of a Translator: `with WorkerPool(load, 4) as pool: ...`.

    A worker ends when its pipe closes, which happens however this process ends.

    Attributes:
        compute_type: of the translators; None: unknown, since this process has loaded none.
    """

    def __init__(self, load: Callable[[], LineTranslator], num_workers: int, *, flush_every: int | None = None) -> None:
        """Start the processes.

        Args:
            load: builds the translator; must be picklable (a function of a module, with arguments bound by
                functools.partial) for processes that are not copies.
            num_workers: number of processes.
            flush_every: see TranslationOptions.

        Raises:
            MtkitError: `load` failed. On other systems than Linux `translate` raises the error.
        """
        super().__init__(num_workers, flush_every)
        self._processes: list[BaseProcess] = []
        translator = load_for_forks(load) if FORKS else None
        self.compute_type = None if translator is None else translator.compute_type
        for _ in range(num_workers):
            self._start(load, translator if translator is not None and translator.can_fork else None)

    def _start(self, load: Callable[[], LineTranslator], translator: LineTranslator | None) -> None:
        """Start a worker: a copy of this process, with the translator; without one a new process, which loads it."""
        ours, theirs = multiprocessing.Pipe()
        process: BaseProcess
        if translator is None:
            process = multiprocessing.get_context("spawn").Process(target=_work, args=(theirs, load), daemon=True)
        else:
            args = (theirs, translator, [*self._workers, ours])
            process = multiprocessing.get_context("fork").Process(target=_work_as_copy, args=args, daemon=True)
        with blocked_in_workers():
            process.start()
        theirs.close()
        self._processes.append(process)
        self._workers.append(ours)

    def close(self) -> None:
        """End the processes; unfinished work is lost."""
        for pipe in self._workers:
            pipe.close()
        for process in self._processes:
            process.kill()
            process.join()

    def _send(self, pipe: Connection, work: tuple[list[Line], int]) -> None:
        self._unread.add(pipe)
        try:
            pipe.send(work)
        except OSError as error:
            raise self._lost(pipe) from error

    def _wait(self, workers: Iterable[Connection]) -> set[Connection]:
        """See Pool."""
        return {each for each in wait([*workers]) if isinstance(each, Connection)}

    def _receive(self, pipe: Connection) -> WorkerResult:
        self._unread.discard(pipe)
        try:
            result: WorkerResult = pipe.recv()
        except (EOFError, OSError):
            return [], self._lost(pipe)
        return result

    def _lost(self, pipe: Connection) -> ReadWriteError:
        process = self._processes[self._workers.index(pipe)]
        process.join(timeout=5)
        return ReadWriteError(
            f"a worker process ended with code {process.exitcode} (-9: out of memory); use fewer workers"
        )


def auto_num_workers(
    file: Path, device: str | None, *, threads: int | None = None, flush_every: int | None = None
) -> int:
    """Number of processes for a text: one on a GPU, or if the length of the text is unknown.

    One also with `threads`, which asks for one fast process, and with `flush_every`, which asks for prompt output.
    """
    if threads is not None or flush_every is not None:
        return 1
    if device not in (None, "cpu") or not file.is_file() or not runs_on_cpu(device):
        return 1
    return max(1, min(num_threads(), file.stat().st_size // BYTES_PER_WORKER))


def window_options(num_workers: int, flush_every: int | None, cluster: Cluster | None = None) -> TranslationOptions:
    """The settings with which `translator_pool` divides lines into windows."""
    is_pool = num_workers > 1 or cluster is not None
    return _pool_options(num_workers, flush_every) if is_pool else TranslationOptions(flush_every=flush_every)


def _pool_options(num_workers: int, flush_every: int | None) -> TranslationOptions:
    """A window is a chunk; with `flush_every` it is divided among the workers."""
    chunks = 1 if flush_every is None else num_workers
    return TranslationOptions(window=CHUNK_LINES * chunks, flush_every=flush_every)


@contextmanager
def translator_pool(
    load: Callable[[], LineTranslator],
    num_workers: int,
    *,
    flush_every: int | None = None,
    cluster: Cluster | None = None,
) -> Iterator[Callable[..., Iterator[Translation]]]:
    """A function like Translator.translate, of one translator in this process, several worker processes or a cluster.

    Raises:
        UsageError: more workers than MAX_WORKERS_PER_CORE for each core; or the errors of the cluster.
    """
    if cluster is not None:
        with cluster.pool(load, flush_every=flush_every) as pool:
            yield pool.translate
        return
    cores = os.cpu_count() or 1
    if num_workers > MAX_WORKERS_PER_CORE * cores:
        raise UsageError(f"{num_workers:,} workers are too many for {cores:,} cores; give one per core")
    if num_workers == 1:
        translator = load()
        _freeze_gc()
        yield translator.translate
        return
    with WorkerPool(load, num_workers, flush_every=flush_every) as workers:
        yield workers.translate


def load_for_forks(load: Callable[[], T]) -> T:
    """The result, such as a translator, loaded without starting threads, which copies of the process would lack."""
    with one_thread():
        translator = load()
    _freeze_gc()  # a collection in a copy would touch, and so copy, the memory of all objects
    return translator


def _work_as_copy(pipe: Connection, translator: LineTranslator, of_parent: Sequence[Connection]) -> None:
    """Main function of a worker that is a copy of its parent, with the parent's ends of all pipes until now."""
    for each in of_parent:
        each.close()  # otherwise the pipes of these workers stay open when the parent ends
    set_num_threads(1)
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):  # the parent process has ended
        _translate_chunks(pipe, translator)


def _work(pipe: Connection, load: Callable[[], LineTranslator]) -> None:
    """Main function of a worker that is a new process."""
    set_num_threads(1)
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):  # the parent process has ended
        translators, load_error = collect_until_error(load() for _ in range(1))
        _freeze_gc()
        if translators:
            _translate_chunks(pipe, translators[0])
        while True:
            pipe.recv()
            pipe.send(([], load_error))


def _translate_chunks(pipe: Connection, translator: LineTranslator) -> NoReturn:
    """Translate chunks until the pipe closes, which raises."""
    while True:
        window, first = pipe.recv()
        pipe.send(collect_until_error(translator.translate(window, first=first)))


def _freeze_gc() -> None:
    """Exclude all present objects, such as the model, from garbage collection.

    Measured: see tools/benchmarks/NOTES.md.
    """
    gc.collect()
    gc.freeze()


def collect_until_error(items: Iterable[T]) -> tuple[list[T], Exception | None]:
    """The items up to an error, and the error."""
    collected: list[T] = []
    try:
        collected.extend(items)
    except MtkitError as error:
        return collected, error
    except (RuntimeError, MemoryError) as error:  # the parent process finds out whether this means out of memory
        error.add_note(traceback.format_exc())
        return collected, error
    return collected, None
