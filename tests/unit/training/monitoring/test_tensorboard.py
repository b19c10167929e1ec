"""Event files for TensorBoard, with a recording writer; with the package, they are also read back."""

import signal
import sys
from types import ModuleType

import pytest

from mtkit.errors import Interrupted, MissingExtraError
from mtkit.training.monitoring.trackers import TensorBoard, scalars
from tests.toy.training import signal_at, toy_config, toy_train


class RecordingWriter:
    """SummaryWriter that records the scalars."""

    def __init__(self, folder, purge_step):
        self.folder, self.purge_step, self.scalars, self.is_closed = folder, purge_step, [], False

    def add_scalar(self, name, value, update):
        self.scalars.append((name, value, update))

    def close(self):
        self.is_closed = True


@pytest.fixture
def writers(monkeypatch):
    writers, module = [], ModuleType("torch.utils.tensorboard")
    module.SummaryWriter = lambda *folder, **keys: writers.append(RecordingWriter(*folder, **keys)) or writers[-1]
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    return writers


def test_scalars_are_named_by_their_paths():
    fields = {"loss": 1.5, "bleu": None, "sample": ["a", "b"], "modules": {"encoder": {"grad_norm": 2}}}
    assert list(scalars("train", fields)) == [("train/loss", 1.5), ("train/modules/encoder/grad_norm", 2.0)]


def test_a_resumed_training_has_every_update_once(tmp_path, writers):
    config = toy_config(trackers=["tensorboard"], max_updates=12)
    with pytest.raises(Interrupted):
        toy_train(tmp_path, config, loader=signal_at(7, signal.SIGUSR1))
    toy_train(tmp_path, config)
    first, second = writers
    assert (first.purge_step, second.purge_step) == (1, 8)
    assert first.folder == second.folder == tmp_path / "tensorboard"
    assert {update for name, _, update in first.scalars if name == "train/loss"} == {3, 6}
    assert {update for name, _, update in second.scalars if name == "validation/nll"} == {12}
    assert first.is_closed
    assert second.is_closed


def test_nothing_is_written_by_default(tmp_path, writers):
    toy_train(tmp_path, toy_config(max_updates=3))
    assert writers == []


def test_without_the_package_the_error_says_how_to_install_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'mtkit\[tensorboard\]'"):
        toy_train(tmp_path, toy_config(trackers=["tensorboard"]))


def test_event_files_can_be_read_back(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    board = TensorBoard(tmp_path, "run", 0)
    board.log({"train/loss": 2.5}, 5)
    board.close()
    read = EventAccumulator(str(tmp_path)).Reload()
    assert [(event.step, event.value) for event in read.Scalars("train/loss")] == [(5, 2.5)]
