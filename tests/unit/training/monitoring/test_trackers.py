"""Trackers: with fake packages, which may fail anywhere, and with the packages themselves where they are installed."""

import importlib.util
import os
import signal
import socket
import sys
from types import ModuleType, SimpleNamespace
from typing import ClassVar, get_args

import pytest

from mtkit.errors import Interrupted, MissingExtraError
from mtkit.pipeline import stages
from mtkit.training.config import TrackerName
from mtkit.training.monitoring import trackers
from tests.toy import runs
from tests.toy.training import events, signal_at, toy_config, toy_train


class RecordingRun:
    def __init__(self, fail_at, keys):
        self.fail_at, self.keys, self.values, self.is_finished = fail_at, keys, [], False

    def log(self, values, step):
        if step == self.fail_at:
            raise ConnectionError("no\nnetwork")
        self.values.append((step, values))

    def finish(self):
        self.is_finished = True


def test_every_name_has_a_tracker():
    assert set(trackers.TRACKERS) == set(get_args(TrackerName))


@pytest.mark.parametrize("name", trackers.TRACKERS)
def test_a_missing_package_is_found_before_any_work(tmp_path, monkeypatch, name):
    monkeypatch.setattr(importlib.util, "find_spec", lambda found: None if found == name else object())
    monkeypatch.delitem(sys.modules, name, raising=False)
    runs.write_all(tmp_path)
    with pytest.raises(MissingExtraError, match=rf"^this needs the package {name}: pip install 'mtkit\[{name}\]'$"):
        stages.train(runs.toy(tmp_path, f"training.trackers=[{name}]"), run_dir=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.fixture
def wandb(monkeypatch):
    """A fake wandb; `fail_at` is the update at which it fails, 0 for the start."""
    module, runs = ModuleType("wandb"), []
    module.fail_at, module.runs = None, runs

    def init(**keys):
        if module.fail_at == 0:
            raise ConnectionError("no network")
        runs.append(RecordingRun(module.fail_at, keys))
        return runs[-1]

    module.init = init
    monkeypatch.setitem(sys.modules, "wandb", module)
    monkeypatch.delenv("WANDB_MODE", raising=False)
    return module


def test_the_telemetry_of_mlflow_is_off_when_it_is_imported(tmp_path, monkeypatch):
    monkeypatch.delenv("MLFLOW_DISABLE_TELEMETRY", raising=False)
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(MissingExtraError):
        trackers.Mlflow(tmp_path, "run", 0)
    assert os.environ["MLFLOW_DISABLE_TELEMETRY"] == "true"
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "false")
    with pytest.raises(MissingExtraError):
        trackers.Mlflow(tmp_path, "run", 0)
    assert os.environ["MLFLOW_DISABLE_TELEMETRY"] == "false"


def test_a_resumed_training_continues_the_run_offline(tmp_path, wandb):
    config = toy_config(trackers=["wandb"], max_updates=12)
    with pytest.raises(Interrupted):
        toy_train(tmp_path, config, loader=signal_at(7, signal.SIGUSR1))
    toy_train(tmp_path, config)
    first, second = wandb.runs
    assert first.keys["id"] == second.keys["id"]
    assert (first.keys["mode"], first.keys["resume"]) == ("offline", "allow")
    assert first.keys["dir"] == str(tmp_path / "wandb")
    assert {step for step, values in first.values if "train/loss" in values} == {3, 6}
    assert {step for step, values in second.values if "validation/nll" in values} == {12}
    assert first.is_finished
    assert second.is_finished


@pytest.mark.parametrize("fail_at", [0, 6])
def test_a_failing_tracker_is_named_once_and_training_goes_on(tmp_path, wandb, fail_at):
    wandb.fail_at = fail_at
    result = toy_train(tmp_path, toy_config(trackers=["wandb"], max_updates=12))
    assert result.update == 12
    (event,) = events(tmp_path, "tracker")
    assert event["result"] == "wandb failed and is not used any more: ConnectionError: no network"


@pytest.mark.parametrize("kind", ["wandb", "mlflow"])
def test_without_the_package_the_error_says_how_to_install_it(tmp_path, monkeypatch, kind):
    monkeypatch.setitem(sys.modules, kind, None)
    with pytest.raises(MissingExtraError, match=rf"needs the package {kind}: pip install 'mtkit\[{kind}\]'"):
        toy_train(tmp_path, toy_config(trackers=[kind]))


def test_nothing_is_tracked_by_default(tmp_path, wandb):
    toy_train(tmp_path, toy_config(max_updates=3))
    assert wandb.runs == []
    assert not (tmp_path / "wandb").exists()


@pytest.mark.filterwarnings("default")  # of mlflow about its own dependencies
def test_mlflow_in_a_local_folder(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    for _ in range(2):
        tracker = trackers.Mlflow(tmp_path, "toy", 0)
        tracker.log({"train/loss": 2.5}, 5)
        tracker.close()
    client = mlflow.MlflowClient(tracking_uri=f"sqlite:///{tmp_path}/mlflow.db")
    (run,) = client.search_runs([client.get_experiment_by_name("mtkit").experiment_id])
    assert run.data.metrics == {"train/loss": 2.5}
    assert {metric.step for metric in client.get_metric_history(run.info.run_id, "train/loss")} == {5}


@pytest.mark.filterwarnings("default")
def test_wandb_offline(tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    monkeypatch.delenv("WANDB_MODE", raising=False)
    tracker = trackers.Wandb(tmp_path, "toy", 0)
    tracker.log({"train/loss": 2.5}, 5)
    tracker.close()
    assert list(tmp_path.rglob("*.wandb"))


class RecordingClient:
    """MLflow's client as far as it is used, which keeps what it is given."""

    clients: ClassVar[list["RecordingClient"]] = []

    def __init__(self, tracking_uri):
        self.uri, self.metrics, self.is_terminated = tracking_uri, [], False
        RecordingClient.clients.append(self)

    def get_experiment_by_name(self, name):
        return None

    def create_experiment(self, name):
        return "1"

    def create_run(self, experiment, run_name):
        return SimpleNamespace(info=SimpleNamespace(run_id="a1"))

    def log_metric(self, run, key, value, step):
        self.metrics.append((run, key, step))

    def set_terminated(self, run):
        self.is_terminated = True


def test_trackers_open_no_socket_and_write_only_into_the_run(tmp_path, monkeypatch, wandb):
    used = []
    for name in ("connect", "connect_ex", "sendto"):
        monkeypatch.setattr(socket.socket, name, lambda *args: used.append(args))
    for name in ("create_connection", "getaddrinfo"):
        monkeypatch.setattr(socket, name, lambda *args, **_: used.append(args))
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_DISABLE_TELEMETRY"):
        monkeypatch.delenv(name, raising=False)
    if importlib.util.find_spec("mlflow") is None:
        module = ModuleType("mlflow")
        module.MlflowClient = RecordingClient
        monkeypatch.setitem(sys.modules, "mlflow", module)
    RecordingClient.clients.clear()
    kinds = ["wandb", "mlflow", *(["tensorboard"] if importlib.util.find_spec("tensorboard") else [])]
    toy_train(tmp_path, toy_config(trackers=kinds, max_updates=6))
    assert used == []
    assert not events(tmp_path, "tracker")  # none failed
    assert os.environ["MLFLOW_DISABLE_TELEMETRY"] == "true"
    assert wandb.runs[0].keys["mode"] == "offline"
    for client in RecordingClient.clients:
        assert client.uri == f"sqlite:///{tmp_path}/mlflow/mlflow.db"
        assert ("a1", "train/loss", 6) in client.metrics
        assert client.is_terminated
