import ast
import io
import json
import math
import re
from pathlib import Path

import pytest

import mtkit
from mtkit.errors import ReadWriteError
from mtkit.io.records import record_line
from mtkit.training.monitoring import log as log_module
from mtkit.training.monitoring.log import Log, NullDisplay, PlainDisplay, parse_line
from mtkit.training.monitoring.validation import Validation
from tests.toy.training import PoisonedCrossEntropy, toy_config, toy_learner, toy_train


def lines(path):
    return [json.loads(line) for line in path.read_text().strip().split("\n")]


def test_every_event_is_a_line_and_numbers_that_are_not_finite_are_null(tmp_path):
    with Log(tmp_path / "run/log.jsonl", NullDisplay()) as log:
        log.event("begin", max_updates=5)
        log.event("train", 3, loss=math.nan, extra=[1.0, math.inf])
    first, second = lines(tmp_path / "run/log.jsonl")
    assert (first["event"], first["update"], first["max_updates"]) == ("begin", None, 5)
    assert (second["update"], second["loss"], second["extra"]) == (3, None, [1.0, None])


def test_rewinding_removes_the_events_that_will_be_repeated(tmp_path):
    path = tmp_path / "log.jsonl"
    with Log(path, NullDisplay()) as log:
        for update in (1, 2, 3):
            log.event("train", update)
        log.event("nonfinite", 3)
    with path.open("ab") as file:
        file.write(b'{"event": "tra')
    with Log(path, NullDisplay()) as log:
        log.rewind(2)
        log.event("train", 3)
    assert [(record["event"], record["update"]) for record in lines(path)] == [
        ("train", 1),
        ("train", 2),
        ("nonfinite", 3),
        ("train", 3),
    ]


def test_a_full_disk_is_named_with_the_file(tmp_path):
    path = tmp_path / "log.jsonl"
    path.symlink_to("/dev/full")
    with (
        pytest.raises(ReadWriteError, match=r"log.jsonl: cannot be written: no space left"),
        Log(path, NullDisplay()) as log,
    ):
        log.event("begin")


def test_an_incomplete_last_line_is_removed_before_the_next_event(tmp_path):
    path = tmp_path / "log.jsonl"
    with Log(path, NullDisplay()) as log:
        log.event("begin")
    with path.open("ab") as file:
        file.write(b'{"event": "tra')
    with Log(path, NullDisplay()) as log:
        log.event("end")
    assert [record["event"] for record in lines(path)] == ["begin", "end"]


@pytest.mark.parametrize(
    "line", ["[]", "1", "", "\xff", "[" * 100_000, '{"time": 1, "event": "train", "update": 1}', '{"event": "x"}']
)
def test_a_line_that_is_not_an_event_is_none(line):
    assert parse_line(line.encode("latin-1")) is None
    assert parse_line(record_line({"event": "x"}).strip()) is None


def test_plain_display():
    stream = io.StringIO()
    PlainDisplay(stream).event("validation", 500, {"nll": 2.34567, "bleu": None, "sample": ("a b", "c", "d")})
    assert stream.getvalue() == "update 500 validation nll=2.346\n    src: a b\n    hyp: c\n    ref: d\n"


def documented_events():
    """The fields of each event in the table of the module, with those of lines that continue a row."""
    table, name = {}, ""
    for first, fields in re.findall(r"^\| (\w*) ?\| (.*) \|$", log_module.__doc__, re.MULTILINE):
        name = first or name
        table[name] = table.get(name, set()) | set(re.findall(r"\w+", fields))
    return table


def test_the_table_has_the_names_and_fields_of_all_calls():
    table, named = documented_events(), set()
    package = Path(mtkit.__file__).parent
    for path in [*(package / "training").rglob("*.py"), package / "pipeline/train_stage.py"]:
        calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        for call in calls:
            constants = [each.value for each in call.args if isinstance(each, ast.Constant)]
            named |= {each for each in constants if isinstance(each, str)}
            if isinstance(call.func, ast.Attribute) and call.func.attr == "event" and constants:
                keywords = {each.arg for each in call.keywords if each.arg is not None}
                assert keywords <= table[constants[0]], (path, call.lineno)
    assert table.keys() - {"event"} <= named


def test_the_table_has_the_fields_of_a_training(tmp_path):
    config = toy_config(max_updates=8, on_nonfinite="skip", log_gradient_norms=True)
    by_set = {"nll_by_set": {"a": 1.0}, "bleu_by_set": {"a": 2.0}}
    validation = Validation(1.0, 2.0, ("a", "b", "c"), {"token_accuracy": 1.0, "ece": 0.0}, command=1.0, **by_set)
    learner = toy_learner(config, objective=PoisonedCrossEntropy(2))
    toy_train(tmp_path, config, validate=lambda model, update: validation, learner=learner)
    logged = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert {"begin", "train", "validation", "checkpoint", "nonfinite", "end"} <= {event["event"] for event in logged}
    for event in logged:
        fields = event.keys() - {"time", "event", "update", "crc32"}
        assert fields <= documented_events()[event["event"]]
