"""Curves for TensorBoard: what is written, read back where the package is, and else with a scripted writer."""

import signal
import sys
from types import ModuleType

import pytest

from mtkit.errors import Interrupted, MissingExtraError
from mtkit.training.monitoring.tensorboard import TensorBoard, numbers
from tests.unit.training.test_training import signal_at
from tests.unit.training.toy_training import toy_config, toy_train


class Writer:
    """Remembers what it was told."""

    def __init__(self, folder, purge_step):
        self.folder, self.purge_step, self.scalars, self.is_closed = folder, purge_step, [], False

    def add_scalar(self, name, value, update):
        self.scalars.append((name, value, update))

    def close(self):
        self.is_closed = True


@pytest.fixture
def made(monkeypatch):
    made, module = [], ModuleType("torch.utils.tensorboard")
    module.SummaryWriter = lambda *folder, **keys: made.append(Writer(*folder, **keys)) or made[-1]
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    return made


def test_numbers_by_their_paths():
    fields = {"loss": 1.5, "bleu": None, "sample": ["a", "b"], "parts": {"encoder": {"grad_norm": 2}}}
    assert list(numbers("train", fields)) == [("train/loss", 1.5), ("train/parts/encoder/grad_norm", 2.0)]


def test_a_training_that_goes_on_is_drawn_once(tmp_path, made):
    config = toy_config(tensorboard=True, max_updates=12)
    with pytest.raises(Interrupted):
        toy_train(tmp_path, config, loader=signal_at(7, signal.SIGUSR1))
    toy_train(tmp_path, config)
    first, second = made
    assert (first.purge_step, second.purge_step) == (1, 8)
    assert first.folder == second.folder == tmp_path / "tensorboard"
    assert {update for name, _, update in first.scalars if name == "train/loss"} == {3, 6}
    assert {update for name, _, update in second.scalars if name == "validation/nll"} == {12}
    assert first.is_closed
    assert second.is_closed


def test_nothing_is_written_unless_asked_for(tmp_path, made):
    toy_train(tmp_path, toy_config(max_updates=3))
    assert made == []


def test_without_the_package_it_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'mtkit\[tensorboard\]'"):
        toy_train(tmp_path, toy_config(tensorboard=True))


def test_event_files_can_be_read_back(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    board = TensorBoard(tmp_path, 0)
    board.event("train", 5, {"loss": 2.5})
    board.close()
    read = EventAccumulator(str(tmp_path)).Reload()
    assert [(event.step, event.value) for event in read.Scalars("train/loss")] == [(5, 2.5)]
