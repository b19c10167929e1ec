import json

import pytest

from mtkit.errors import MissingInputError
from mtkit.io.lock import RunLock, is_held
from mtkit.training.checkpoints.checkpoint import checkpoint_path
from mtkit.training.checkpoints.listing import survey
from mtkit.training.monitoring import follow as module
from mtkit.training.monitoring.follow import watch
from mtkit.training.monitoring.log import Log, Silent
from tests.unit.training.toy_training import toy_config, toy_train


class Heard:
    """A display that remembers."""

    def __init__(self):
        self.events = []

    def event(self, name, update, fields):
        self.events.append((name, update))


def test_a_finished_training_is_shown_and_that_is_all(tmp_path):
    toy_train(tmp_path, toy_config(max_updates=8))
    heard = Heard()
    watch(tmp_path, heard)
    assert heard.events[0] == ("begin", 0)
    assert heard.events[-1] == ("end", 8)
    assert [update for name, update in heard.events if name == "train"] == [8]
    assert [update for name, update in heard.events if name == "validation"] == [6, 8]


def test_a_running_training_is_followed_through_torn_lines_and_rewinding(tmp_path):
    heard, log = Heard(), Log(tmp_path / "log.jsonl", Silent())
    log.event("begin", 0)
    log.event("train", 10, loss=1.0)
    log.event("train", 20, loss=1.0)
    line = json.dumps({"time": 4e9, "event": "train", "update": 30}).encode()
    lock = RunLock(tmp_path)

    def append(content):
        with (tmp_path / "log.jsonl").open("ab") as file:
            file.write(content)

    def rewind():
        log.rewind(10)
        module.time.sleep(0.002)
        log.event("train", 15, loss=0.5)

    def tear():
        append(line[:9])

    def mend():
        append(line[9:] + b"\n")
        lock.__exit__(None, None, None)

    happenings = iter([rewind, tear, mend])
    with lock:
        assert is_held(tmp_path)
        watch(tmp_path, heard, sleep=lambda seconds: next(happenings)())
    log.close()
    assert not is_held(tmp_path)
    assert heard.events == [("begin", 0), ("train", 20), ("train", 15), ("train", 30)]


def test_what_is_no_run_folder_is_named(tmp_path):
    with pytest.raises(MissingInputError, match=r"log.jsonl: no such file; .* is no run folder"):
        watch(tmp_path, Heard())
    with pytest.raises(MissingInputError, match="has no checkpoints"):
        survey(tmp_path)


def test_survey_names_what_is_damaged_and_what_is_best(tmp_path):
    toy_train(tmp_path, toy_config(max_updates=12, checkpoint_every=4))
    whole = survey(tmp_path)
    assert all(one.fault is None for one in whole)
    assert [one.update for one in whole if one.rank == 1]
    assert any(one.line().endswith("whole  best") for one in whole)
    file = checkpoint_path(tmp_path / "checkpoints", 8) / "model.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    found = {one.update: one.fault for one in survey(tmp_path / "checkpoints")}
    assert found[8] == "damaged: model.safetensors is not as it was written"
    assert found[12] is None
    file.parent.rename(file.parent.with_name("damaged-update-00000008"))
    assert survey(tmp_path)[-1].fault == "damaged, set aside"
