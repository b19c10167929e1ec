"""Workers on the machines of a Ray cluster (Moritz et al. 2018, https://arxiv.org/abs/1712.05889).

Each worker of a translation is an actor with one thread that loads the translator from the same path as here. Ray
starts a lost worker again, on another machine if need be, and repeats the chunk of lines that it had; lines go out in
order from this process alone, so that each is written once.
"""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from mtkit.display import printable
from mtkit.errors import ReadWriteError, UsageError, require_extra
from mtkit.hardware import set_num_threads
from mtkit.translate.lines import Line
from mtkit.translate.workers import LineTranslator, Pool, WorkerResult, collect_until_error

RETRIES = 3  # of a chunk whose worker is lost; a chunk that ends its worker each time is an error then
CONNECT_SECONDS = 10


@dataclass(frozen=True)
class RayCluster:
    """The cluster of Ray that translates instead of this machine.

    Attributes:
        address: HOST:PORT; None: a cluster on this machine alone, which ends with the command.
        num_workers: processes of one thread; None: one for each core of the cluster.
    """

    address: str | None = None
    num_workers: int | None = None

    def pool(self, load: Callable[[], LineTranslator], *, flush_every: int | None = None) -> RayPool:
        """Workers on the cluster; errors as RayPool."""
        return RayPool(load, self, flush_every=flush_every)

    def map(self, function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        """`function` of each item, in their order, computed by the cluster; errors as RayPool, and those of it.

        The work of a lost worker is done again, by another one.
        """
        ray = _join(self)
        try:
            task = ray.remote(num_cpus=1, max_retries=RETRIES)(_answer)
            shared, rest = ray.put(function), iter(items)
            count = self.num_workers or 2 * int(ray.cluster_resources().get("CPU", 1))
            futures = deque(task.remote(shared, item) for item in islice(rest, count))
            while futures:
                try:
                    results, error = ray.get(futures.popleft())
                except ray.exceptions.RayError as lost:
                    raise _lost_error(lost) from lost
                if error is not None:
                    raise error
                futures.extend(task.remote(shared, item) for item in islice(rest, 1))
                yield from results
        finally:
            ray.shutdown()


class RayPool(Pool[int]):
    """A pool of workers on a cluster: `with RayPool(load, RayCluster("10.0.0.1:6379")) as pool: ...`."""

    def __init__(
        self, load: Callable[[], LineTranslator], cluster: RayCluster, *, flush_every: int | None = None
    ) -> None:
        """Join the cluster and start its workers.

        Args:
            load: builds the translator; must be picklable.
            cluster: the cluster, or the one to start.
            flush_every: see TranslationOptions.

        Raises:
            MissingExtraError: Ray is not installed.
            ReadWriteError: there is no cluster at the address.
        """
        self._ray = ray = _join(cluster)
        count = cluster.num_workers or int(ray.cluster_resources().get("CPU", 1))
        super().__init__(count, flush_every)
        actor = ray.remote(num_cpus=1, max_restarts=RETRIES, max_task_retries=RETRIES)(_Worker)
        self._actors = [actor.remote(load) for _ in range(count)]
        self._futures: dict[int, Any] = {}
        self._workers = [*range(count)]

    def close(self) -> None:
        """See Pool."""
        self._ray.shutdown()

    def _send(self, worker: int, work: tuple[list[Line], int]) -> None:
        self._unread.add(worker)
        self._futures[worker] = self._actors[worker].translate.remote(*work)

    def _wait(self, workers: Iterable[int]) -> set[int]:
        worker_of = {self._futures[worker]: worker for worker in workers}
        ready, _ = self._ray.wait([*worker_of])
        return {worker_of[future] for future in ready}

    def _receive(self, worker: int) -> WorkerResult:
        self._unread.discard(worker)
        try:
            result: WorkerResult = self._ray.get(self._futures.pop(worker))
        except self._ray.exceptions.RayError as error:
            return [], _lost_error(error)
        return result


def _join(cluster: RayCluster) -> Any:
    """Ray itself, in the cluster; errors as RayPool."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"  # Ray reports statistics to its makers otherwise
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    with require_extra("ray", "ray"):
        import ray
    options: dict[str, Any] = {"include_dashboard": False, "log_to_driver": False, "logging_level": "ERROR"}
    if cluster.address is None:
        options |= {"address": "local", "_node_ip_address": "127.0.0.1"}  # ports on this machine alone
    else:
        options = {"address": cluster.address, "log_to_driver": False, "logging_level": "ERROR"}
        _require_cluster(cluster.address)
    try:
        ray.init(**options)
    except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
        raise ReadWriteError(f"Ray does not start: {_first_line(error)}") from error
    return ray


def _answer(function: Callable[[Any], Any], item: Any) -> tuple[list[Any], Exception | None]:
    set_num_threads(1)
    return collect_until_error(function(item) for _ in range(1))


def _require_cluster(address: str) -> None:
    """Check that there is a listener at an address, for which Ray would wait and write for minutes.

    Raises:
        UsageError: it is no address.
        ReadWriteError: there is none.
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise UsageError(f"--address {printable(address)}: HOST:PORT is expected, as ray start prints it")
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise ReadWriteError(f"--address {address}: no cluster of Ray: {error}; ray start --head begins one") from error


def _lost_error(error: Exception) -> ReadWriteError:
    what = f"a worker of the cluster was lost {RETRIES + 1} times with the same lines"
    return ReadWriteError(f"{what}: {_first_line(error)}")


def _first_line(error: Exception) -> str:
    return printable(str(error).strip().partition("\n")[0])


class _Worker:
    """The actor: a translator, which is loaded with the first lines, so that its errors are answers."""

    def __init__(self, load: Callable[[], LineTranslator]) -> None:
        self._load = load
        self._translator: LineTranslator | None = None

    def translate(self, window: list[Line], first: int) -> WorkerResult:
        """Translate a chunk of lines."""
        if self._translator is None:
            set_num_threads(1)
            loaded, error = collect_until_error(self._load() for _ in range(1))
            if error is not None:
                return [], error
            (self._translator,) = loaded
        return collect_until_error(self._translator.translate(window, first=first))
