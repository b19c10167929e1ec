import json
import re

import pytest

from mtkit.errors import DamagedError
from mtkit.pipeline.records import Report, Stamps, read_json

TRAIN = {"updates": 3, "precision": "float32", "tokens_per_second": 9, "best_update": None, "reason": "max_updates"}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "report.json"


@pytest.mark.parametrize(
    "content", [{}, {"train": TRAIN}, {"test": {"a": {"bleu": 3.5, "of a later mtkit": [1]}}, "x": 1}]
)
def test_what_is_as_it_must_be_is_given_as_it_stands(path, content):
    path.write_text(json.dumps(content))
    assert read_json(path, Report) == content


def test_a_file_that_is_not_there_holds_nothing(path):
    assert read_json(path, Report) == {}


@pytest.mark.parametrize(
    ("content", "key"),
    [
        ({"train": []}, "train"),
        ({"train": None}, "train"),
        ({"train": {**TRAIN, "updates": "3"}}, "train.updates"),
        ({"train": {}}, "train.updates"),
        ({"test": [1]}, "test"),
        ({"test": {"a": 7}}, "test.a"),
        ({"test": {"a": {"bleu": "high"}}}, "test.a.bleu"),
        ({"test": {"a": {"bleu_signature": 1}}}, "test.a.bleu_signature"),
    ],
)
def test_a_value_of_another_kind_is_damage_and_is_named(path, content, key):
    path.write_text(json.dumps(content))
    with pytest.raises(DamagedError, match=rf"report.json: damaged: {re.escape(key)} is missing or not .*; delete it"):
        read_json(path, Report)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"train": NaN}', "\0", '{"train": ' + "9" * 5000 + "}"])
def test_what_is_no_json_is_damage(path, content):
    path.write_text(content)
    with pytest.raises(DamagedError, match="delete it"):
        read_json(path, Stamps)
