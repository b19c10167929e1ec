"""Records and format version of a run folder."""

import re

import pytest

from mtkit import __version__
from mtkit.errors import DamagedError, FormatError, MissingInputError
from mtkit.io.records import write_record, write_text_record
from mtkit.pipeline.run_folder import FORMAT, Fingerprints, RunFolder, RunRecord, read_json

TRAIN = {"updates": 3, "precision": "float32", "tokens_per_second": 9, "best_update": None, "reason": "max_updates"}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "report.json"


@pytest.mark.parametrize(
    "content", [{}, {"train": TRAIN}, {"test": {"a": {"bleu": 3.5, "of a later mtkit": [1]}}, "x": 1}]
)
def test_a_valid_report_is_returned_unchanged(path, content):
    write_record(path, content)
    assert read_json(path, RunRecord) == content


def test_a_missing_file_is_an_empty_object(path):
    assert read_json(path, RunRecord) == {}


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
def test_a_value_of_the_wrong_type_is_damage_and_is_named(path, content, key):
    write_record(path, content)
    with pytest.raises(
        DamagedError, match=rf"report.json: damaged: {re.escape(key)} is missing or has the wrong type; mtkit run makes"
    ):
        read_json(path, RunRecord)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"train": NaN}', "\0", '{"train": ' + "9" * 5000 + "}"])
def test_invalid_json_is_damage(path, content):
    path.write_text(content)
    with pytest.raises(DamagedError, match="does not match its checksum; mtkit run makes it again"):
        read_json(path, Fingerprints)


RECIPE = """\
name: x
model: {kind: rnn}
corpus: {src_lang: en, tgt_lang: de, train: [{src: a, tgt: b}], valid: {src: c, tgt: d}}
"""


@pytest.fixture
def folder(tmp_path):
    """A run folder with a training that was started."""
    write_text_record(tmp_path / "recipe.yaml", RECIPE)
    (tmp_path / "checkpoints" / "update-00000001").mkdir(parents=True)
    folder = RunFolder(tmp_path)
    folder.write_version()
    return folder


def test_the_saved_recipe_is_read(folder):
    assert read_json(folder.version) == {"format": FORMAT, "mtkit": __version__}
    assert folder.load_recipe().name == "x"


def test_a_folder_without_a_recipe_is_not_a_run_folder(tmp_path):
    with pytest.raises(MissingInputError, match=r"not a run folder; it has no recipe\.yaml"):
        RunFolder(tmp_path).load_recipe()


@pytest.mark.parametrize(
    ("version", "writer", "number"), [(None, "0.1.0", 1), ('{"format": 99, "mtkit": "9.9"}', "9.9", 99)]
)
def test_another_format_is_refused_in_one_sentence(folder, version, writer, number):
    folder.recipe.write_text(RECIPE)
    if version is None:  # the first version wrote no version.json
        folder.version.unlink()
    else:
        folder.version.write_text(version)
    with pytest.raises(FormatError) as caught:
        folder.load_recipe()
    assert str(caught.value) == (
        f"{folder.path}: written by mtkit {writer} in run folder format {number}, but mtkit {__version__} reads format "
        f"{FORMAT}; train it again (--fresh, or another --run-dir), or use mtkit {writer}"
    )
    assert caught.value.exit_code == 65


def test_a_folder_without_training_may_have_any_format(folder):
    folder.version.unlink()
    (folder.checkpoints / "update-00000001").rmdir()
    folder.check_format()


def test_recipe_keys_of_another_version_are_refused_in_one_sentence(folder):
    write_record(folder.version, {"format": FORMAT, "mtkit": "0.1.9"})
    write_text_record(folder.recipe, RECIPE + "training: {layer_drop: 1, clip: 2}\n")
    with pytest.raises(FormatError) as caught:
        folder.load_recipe()
    message = str(caught.value)
    assert "\n" not in message
    assert f"written by mtkit 0.1.9 with a recipe that mtkit {__version__} does not read (" in message
    assert "no such key" in message
    assert message.endswith("); train it again (--fresh, or another --run-dir), or use mtkit 0.1.9")


def test_a_damaged_or_missing_recipe_is_named(folder):
    folder.recipe.write_text(RECIPE + "training: {seed: 1}\n")
    with pytest.raises(DamagedError, match=r"/recipe\.yaml: damaged, or .*; undo the change, or restore it"):
        folder.load_recipe()
    folder.recipe.unlink()
    with pytest.raises(DamagedError, match=r"/recipe\.yaml: no such file; undo the change, or restore it"):
        folder.load_recipe()


@pytest.mark.parametrize("content", [None, '{"format": "2", "mtkit": "0.2.0"}', "{"])
def test_a_recipe_with_a_checksum_shows_the_format_of_a_folder_whose_version_is_lost(folder, content):
    folder.version.unlink()
    if content is not None:
        folder.version.write_text(content)
    folder.check_format()
    assert folder.load_recipe().name == "x"
    assert folder.version_damage() is not None
    folder.write_version()
    assert read_json(folder.version) == {"format": FORMAT, "mtkit": __version__}


def test_a_damaged_version_beside_a_damaged_recipe_is_named(folder):
    folder.version.write_text("{")
    folder.recipe.write_text(RECIPE)
    with pytest.raises(DamagedError, match=r"version\.json: damaged, or edited by hand: .*; restore it, or recipe"):
        folder.check_format()
