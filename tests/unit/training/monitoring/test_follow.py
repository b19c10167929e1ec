import time

import pytest

from mtkit.errors import MissingInputError
from mtkit.io.lock import RunLock, is_locked
from mtkit.io.records import record_line
from mtkit.training.monitoring.log import Log, NullDisplay, watch
from tests.toy.training import toy_config, toy_train


class RecordingDisplay:
    """Display that records the events."""

    def __init__(self):
        self.events = []

    def event(self, name, update, fields):
        self.events.append((name, update))


def test_a_finished_training_is_displayed_once(tmp_path):
    toy_train(tmp_path, toy_config(max_updates=8))
    display = RecordingDisplay()
    watch(tmp_path, display)
    assert display.events[0] == ("begin", 0)
    assert display.events[-1] == ("end", 8)
    assert [update for name, update in display.events if name == "train"] == [8]
    assert [update for name, update in display.events if name == "validation"] == [6, 8]


def test_a_running_training_is_followed_through_incomplete_lines_and_rewinding(tmp_path):
    display, log = RecordingDisplay(), Log(tmp_path / "log.jsonl", NullDisplay())
    log.event("begin", 0)
    log.event("train", 10, loss=1.0)
    log.event("train", 20, loss=1.0)
    line = record_line({"time": 4e9, "event": "train", "update": 30})
    lock = RunLock(tmp_path)

    def append(content):
        with (tmp_path / "log.jsonl").open("ab") as file:
            file.write(content)

    def rewind():
        log.rewind(10)
        time.sleep(0.002)
        log.event("train", 15, loss=0.5)

    def write_half_a_line():
        append(line[:9])

    def complete_the_line():
        append(line[9:])
        lock.__exit__(None, None, None)

    actions = iter([rewind, write_half_a_line, complete_the_line])
    with lock:
        assert is_locked(tmp_path)
        watch(tmp_path, display, sleep=lambda seconds: next(actions)())
    log.close()
    assert not is_locked(tmp_path)
    assert display.events == [("begin", 0), ("train", 20), ("train", 15), ("train", 30)]


def test_a_folder_without_a_log_is_named(tmp_path):
    with pytest.raises(MissingInputError, match=r"log.jsonl: no such file; .* is not a run folder"):
        watch(tmp_path, RecordingDisplay())
