"""Trackers, which show the training beside the log: TensorBoard, Weights & Biases, MLflow."""

from __future__ import annotations

import importlib.util
import os
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from mtkit.errors import MissingExtraError, require_extra
from mtkit.training.config import TrackerName
from mtkit.training.monitoring.log import Log

PLOTTED_EVENTS = frozenset({"train", "validation"})  # events with scalars


def scalars(name: str, value: object) -> Iterator[tuple[str, float]]:
    """Yield every number of nested mappings with its path, such as train/modules/encoder/grad_norm."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from scalars(f"{name}/{key}", item)
    elif isinstance(value, int | float):
        yield name, float(value)


RUN_ID = "mtkit-run-id"  # file with the identity of the tracked run, which a resumed training continues


class Tracker(Protocol):
    """An open run of a tracker: made from its folder, the name of the run, and the last update that remains valid."""

    def log(self, values: Mapping[str, float], update: int) -> None:
        """Record the scalars of an update."""

    def close(self) -> None:
        """Write what is buffered."""


class TensorBoard:
    """Event files of TensorBoard, in which updates that a resumed training repeats appear once.

    Raises:
        MissingExtraError: tensorboard is not installed.
    """

    def __init__(self, folder: Path, name: str, update: int) -> None:
        with require_extra("tensorboard", "tensorboard"):
            from torch.utils.tensorboard import SummaryWriter
        self._writer = SummaryWriter(folder, purge_step=update + 1)

    def log(self, values: Mapping[str, float], update: int) -> None:
        """Record the scalars of an update."""
        for key, value in values.items():
            self._writer.add_scalar(key, value, update)

    def close(self) -> None:
        """Write buffered events and close the files."""
        self._writer.close()


class Wandb:
    """A run of Weights & Biases, offline unless the environment variable WANDB_MODE says otherwise.

    Raises:
        MissingExtraError: wandb is not installed.
    """

    def __init__(self, folder: Path, name: str, update: int) -> None:
        with require_extra("wandb", "wandb"):
            import wandb
        run_id = _saved_id(folder, lambda: uuid.uuid4().hex[:16])
        self._run: Any = wandb.init(
            dir=str(folder),
            project=os.environ.get("WANDB_PROJECT", "mtkit"),
            name=name,
            id=run_id,
            resume="allow",
            mode=os.environ.get("WANDB_MODE", "offline"),
        )

    def log(self, values: Mapping[str, float], update: int) -> None:
        """Record the scalars of an update; wandb itself drops updates that a resumed training repeats."""
        self._run.log(dict(values), step=update)

    def close(self) -> None:
        """Finish the run."""
        self._run.finish()


class Mlflow:
    """A run of MLflow, in a local folder unless the environment variable MLFLOW_TRACKING_URI names a server.

    Raises:
        MissingExtraError: mlflow is not installed.
    """

    def __init__(self, folder: Path, name: str, update: int) -> None:
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # read when mlflow is imported
        with require_extra("mlflow", "mlflow"):
            import mlflow
        uri = os.environ.get("MLFLOW_TRACKING_URI", f"sqlite:///{folder}/mlflow.db")
        self._client: Any = mlflow.MlflowClient(tracking_uri=uri)
        self._run_id = _saved_id(folder, lambda: self._create(name))

    def _create(self, name: str) -> str:
        experiment = self._client.get_experiment_by_name("mtkit")
        number = experiment.experiment_id if experiment is not None else self._client.create_experiment("mtkit")
        return str(self._client.create_run(number, run_name=name).info.run_id)

    def log(self, values: Mapping[str, float], update: int) -> None:
        """Record the scalars of an update."""
        for key, value in values.items():
            self._client.log_metric(self._run_id, key, value, step=update)

    def close(self) -> None:
        """Mark the run as finished."""
        self._client.set_terminated(self._run_id)


TRACKERS: dict[TrackerName, Callable[[Path, str, int], Tracker]] = {
    "tensorboard": TensorBoard,
    "wandb": Wandb,
    "mlflow": Mlflow,
}


def require_packages(trackers: Sequence[TrackerName]) -> None:
    """Check that the packages of the trackers of a training are installed, before the work that precedes it.

    Raises:
        MissingExtraError: one is not.
    """
    for name in trackers:
        if name not in sys.modules and importlib.util.find_spec(name) is None:
            raise MissingExtraError(name, name)


class _TrackerDisplay:
    """Display that passes scalars to a tracker until it fails; a failure is reported once and ends nothing else.

    Raises:
        MissingExtraError: the package of the tracker is not installed.
    """

    def __init__(self, kind: TrackerName, log: Log, folder: Path, name: str, update: int) -> None:
        self._kind, self._log = kind, log
        self._tracker: Tracker | None = None
        with self:
            folder.mkdir(parents=True, exist_ok=True)
            self._tracker = TRACKERS[kind](folder, name, update)

    def event(self, name: str, update: int | None, fields: Mapping[str, Any]) -> None:
        """Record the scalars of a training event."""
        if self._tracker is not None and name in PLOTTED_EVENTS and update is not None:
            values = dict(scalars(name, fields))
            with self:
                self._tracker.log(values, update)

    def close(self) -> None:
        """Close the run of the tracker."""
        if self._tracker is not None:
            with self:
                self._tracker.close()

    def __enter__(self) -> None:
        """Begin a call of the tracker."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        """Report a failure of the tracker, which is another program, so that the exception may have any class."""
        if not isinstance(error, Exception) or isinstance(error, MissingExtraError):
            return False
        self._tracker = None
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        self._log.event("tracker", result=f"{self._kind} failed and is not used any more: {reason}")
        return True


@contextmanager
def log_to_trackers(log: Log, run_folder: Path, kinds: Sequence[TrackerName], update: int) -> Iterator[None]:
    """Pass the events of the block to trackers.

    Args:
        run_folder: files of a tracker go to its sub-folder of the tracker's name.
        update: last update of an earlier training that remains valid.

    Raises:
        MissingExtraError: a package is not installed.
    """
    with ExitStack() as stack:
        for kind in kinds:
            display = _TrackerDisplay(kind, log, run_folder / kind, run_folder.name, update)
            stack.callback(display.close)
            stack.enter_context(log.with_display(display))
        yield


def _saved_id(folder: Path, create: Callable[[], str]) -> str:
    """Return the identity in the folder, or create one and save it."""
    path = folder / RUN_ID
    if not path.is_file():
        path.write_text(create(), encoding="utf-8")
    return path.read_text(encoding="utf-8")
