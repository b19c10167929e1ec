"""Bad input is answered with a message and the documented exit code, and destroys nothing."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from mtkit.cli import entry

Run = Callable[..., tuple[int, str]]
RECIPE = """\
name: toy
corpus:
  root: .
  src_lang: en
  tgt_lang: de
  train: [{src: train.en, tgt: train.de}]
  valid: {src: valid.en, tgt: valid.de}
  test:
    toy: {src: valid.en, tgt: valid.de}
tokenizer: {vocab_size: 130, model_type: char}
model: {kind: rnn}
training: {max_updates: 2}
defaults: fixed
"""
SRC = [f"the dog number {i} sees a cat" for i in range(40)]
TGT = [f"der Hund Nummer {i} sieht eine Katze" for i in range(40)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory, with a small corpus and a recipe for it."""
    for name, lines in {"train.en": SRC, "train.de": TGT, "valid.en": SRC[:5], "valid.de": TGT[:5]}.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    (tmp_path / "toy.yaml").write_text(RECIPE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command line; returns exit code and error message."""

    def execute(*words: str) -> tuple[int, str]:
        code = entry.execute(words)
        err = capsys.readouterr().err
        assert "Traceback" not in err
        message = err[err.find("mtkit: error: ") :] if code else ""
        assert message.count("\n") <= 12
        return code, message

    return execute


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("training.max_update=5", "training.max_update: no such key; did you mean training.max_updates?"),
        ("training.lr=1e-3", "training.lr: no such key; did you mean training.optimiser.learning_rate? (the peak, aft"),
        (
            "search.lenpen=1",
            "search.lenpen: no such key; did you mean search.length_penalty? (a number div",
        ),
        ("training.max_updates=many", "training.max_updates"),
        ("search.max_length.factor=1e30", "search.max_length.factor: 1e+30: must be less than or equal to 1000"),
        ("search.max_length.offset=100000000000", "search.max_length.offset: 100000000000: must be less than or equal"),
        ("search.min_length.factor=1e30", "search.min_length.factor: 1e+30: must be less than or equal to 1000"),
        ("training.max_updates=true", "training.max_updates"),
        ("training.max_updates=-1", "training.max_updates"),
        ("training.label_smoothing=.nan", "training.label_smoothing"),
        ("tokenizer.character_coverage=0.95", "character_coverage: 0.95: must be greater than or equal to 0.98"),
        ("model.kind=transfromer", "did you mean transformer?"),
        ("model.d_model=1000000000", "model.d_model: 1000000000: must be less than or equal to 100000"),
        ("model.num_layers=100000", "model.num_layers: 100000: must be less than or equal to 1000"),
        (
            "model={kind: transformer, decoder_attention: {kind: performer, num_features: 1000000}}",
            "model.decoder_attention.num_features: 1000000: must be less than or equal to 100000",
        ),
        ("nonsense", "key=value"),
    ],
)
def test_an_invalid_key_or_value(run: Run, folder: Path, override: str, expected: str) -> None:
    code, message = run("run", "toy.yaml", override)
    assert code == 78
    assert expected in message
    assert not (folder / "runs").exists()


def test_all_errors_of_a_recipe_with_their_lines(run: Run, folder: Path) -> None:
    (folder / "toy.yaml").write_text(RECIPE.replace("vocab_size", "vocabsize").replace("max_updates", "maxupdates"))
    code, message = run("preprocess", "toy.yaml")
    assert code == 78
    assert "toy.yaml:10: tokenizer.vocabsize: no such key; did you mean vocab_size?" in message
    assert "toy.yaml:12: training.maxupdates: no such key; did you mean max_updates?" in message


def test_no_such_recipe(run: Run, folder: Path) -> None:
    code, message = run("train", "toi.yaml")
    assert code == 66
    assert "did you mean toy.yaml?" in message


@pytest.mark.parametrize("command", ["preprocess", "run"])
def test_a_missing_file(run: Run, folder: Path, command: str) -> None:
    (folder / "train.de").unlink()
    code, message = run(command, "toy.yaml")
    assert code == 66
    assert str(folder / "train.de") in message


def test_a_pipe_where_a_text_is_read_more_than_once(run: Run, folder: Path) -> None:
    (folder / "train.de").unlink()
    os.mkfifo(folder / "train.de")
    for words in (["preprocess", "toy.yaml"], ["train-bpe", "train.de", "--vocab-size", "110", "-o", "pieces"]):
        code, message = run(*words)
        assert code == 66
        assert "train.de: a pipe or device" in message


def test_unequal_line_counts_are_refused_at_once(run: Run, folder: Path) -> None:
    (folder / "train.de").write_text("".join(f"{line}\n" for line in TGT[:-1]))
    code, message = run("preprocess", "toy.yaml")
    assert code == 65
    assert "40" in message
    assert "39" in message
    assert not list(folder.glob("runs/*/tokenizer/*.model"))


def test_bytes_that_are_not_utf8_are_named_by_file_line_and_byte(run: Run, folder: Path) -> None:
    lines = [*(line.encode() for line in SRC[:3]), b"caf\xe9", *(line.encode() for line in SRC[4:])]
    (folder / "train.en").write_bytes(b"\n".join(lines) + b"\n")
    code, message = run("preprocess", "toy.yaml")
    assert code == 65
    assert f"{folder / 'train.en'}:4: byte 4" in message


def test_an_empty_corpus(run: Run, folder: Path) -> None:
    for name in ("train.en", "train.de"):
        (folder / name).write_text("")
    code, message = run("preprocess", "toy.yaml")
    assert code == 65
    assert "train" in message


def test_a_damaged_archive(run: Run, folder: Path) -> None:
    whole = gzip.compress("".join(f"{line}\n" for line in SRC).encode())
    (folder / "train.en").write_bytes(whole[:-20])
    code, message = run("preprocess", "toy.yaml")
    assert code == 65
    assert "train.en: the compressed file is damaged" in message


def test_a_vocabulary_that_the_text_cannot_give(run: Run, folder: Path) -> None:
    code, message = run("train-bpe", "train.en", "--vocab-size", "30000", "-o", "spm")
    assert code == 65
    assert "30,000" in message or "30000" in message
    assert not (folder / "spm.model").exists()


def test_no_space_for_a_tokenizer(run: Run, folder: Path) -> None:
    code, message = run("train-bpe", "train.en", "--vocab-size", "110", "--model-type", "char", "-o", "nowhere/spm")
    assert code == 74
    assert "nowhere" in message


def test_evaluate_names_both_counts(run: Run, folder: Path) -> None:
    code, message = run("evaluate", "train.en", "--ref", "valid.en")
    assert code == 65
    assert "40" in message
    assert "5" in message


def test_evaluate_counts_the_source_too(run: Run, folder: Path) -> None:
    code, message = run("evaluate", "valid.de", "--ref", "valid.de", "--src", "train.en")
    assert code == 65
    assert "valid.de has 5 lines, but train.en has 40; " in message


def test_scores_cannot_be_written(run: Run, folder: Path) -> None:
    code, message = run("evaluate", "valid.de", "--ref", "valid.de", "--json", "nowhere/scores.json")
    assert code == 74
    assert "nowhere/scores.json" in message


@pytest.mark.parametrize("words", [["translate", "no-model", "valid.en"], ["evaluate", "--run", "no-run"]])
def test_no_such_model_or_run(run: Run, folder: Path, words: list[str]) -> None:
    code, message = run(*words)
    assert code == 66
    assert "no-" in message


LONG = "x" * 300


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["run", LONG], 66),
        (["describe", LONG], 66),
        (["translate", LONG, "valid.en"], 66),
        (["average", LONG, "-o", "model"], 66),
        (["encode", LONG], 66),
        (["watch", LONG], 66),
        (["run", "toy.yaml", "--run-dir", LONG], 74),
        (["plot", "runs/toy", "-o", LONG], 74),
        (["evaluate", "valid.de", "--ref", "valid.de", "--json", LONG], 74),
    ],
)
def test_names_that_no_file_can_have(run: Run, folder: Path, words: list[str], expected: int) -> None:
    code, message = run(*words)
    assert code == expected
    assert "too long" in message


@pytest.mark.parametrize("words", [["plot", "no-run"], ["average", "no-checkpoint", "-o", "model"]])
def test_no_such_run_or_checkpoint(run: Run, folder: Path, words: list[str]) -> None:
    code, message = run(*words)
    assert code == 66
    assert words[1] in message
    assert {path.name for path in folder.iterdir()} == {"train.en", "train.de", "valid.en", "valid.de", "toy.yaml"}


def test_bytes_that_are_not_utf8_in_any_text_are_found_before_training(run: Run, folder: Path) -> None:
    for name in ("train.de", "test.de"):
        (folder / name).write_bytes(b"\n".join([*[line.encode() for line in TGT[:10]], b"M\xff"] + [b"x"] * 29) + b"\n")
        (folder / "test.en").write_text("".join(f"{line}\n" for line in SRC))
        code, err = run(
            "run",
            "toy.yaml",
            f"corpus.{'train.0' if name == 'train.de' else 'test.toy'}.tgt={name}",
            f"corpus.test.toy.src={'valid.en' if name == 'train.de' else 'test.en'}",
        )
        assert code == 65
        assert f"{name}:11: byte 2" in err
        assert "INTERNAL" not in err
        assert not (folder / "runs/toy/checkpoints").exists()
        (folder / "train.de").write_text("".join(f"{line}\n" for line in TGT))


def test_a_corrupted_corpus_is_rebuilt(run: Run, folder: Path) -> None:
    assert run("preprocess", "toy.yaml")[0] == 0
    column = next((folder / "runs/toy/corpus/train.0").glob("tgt.ids.bin"))
    good = column.read_bytes()
    column.write_bytes(good[:7] + bytes([good[7] ^ 1]) + good[8:])
    assert run("preprocess", "toy.yaml")[0] == 0
    assert column.read_bytes() == good


def test_an_absurd_beam_size(run: Run, folder: Path) -> None:
    code, err = run("preprocess", "toy.yaml", "search.beam_size=100000")
    assert code == 78
    assert "search.beam_size" in err


@pytest.mark.parametrize("command", ["run", "train", "preprocess"])
def test_an_empty_run_dir_is_not_the_current_directory(run: Run, folder: Path, command: str) -> None:
    before = sorted(folder.iterdir())
    code, message = run(command, "toy.yaml", "--run-dir", "")
    assert code == 2
    assert "--run-dir" in message
    assert "is empty" in message
    assert sorted(folder.iterdir()) == before


def test_an_absurd_vocabulary_size(run: Run, folder: Path) -> None:
    code, message = run("describe", "toy.yaml", "tokenizer.vocab_size=9999999999999999999")
    assert code == 78
    assert "tokenizer.vocab_size" in message


@pytest.mark.parametrize("option", ["--threads", "--workers"])
def test_an_absurd_number_of_threads(run: Run, folder: Path, option: str) -> None:
    code, message = run("translate", "model", "valid.en", option, "100000")
    assert code == 2
    assert option in message


def test_an_empty_output_prefix(run: Run, folder: Path) -> None:
    code, message = run("train-bpe", "train.en", "--vocab-size", "110", "-o", "")
    assert code == 2
    assert "PREFIX" in message


def test_paths_of_an_unknown_user_and_with_a_null_character(run: Run, folder: Path) -> None:
    cases = (("~nobody-of-this-name/a", 66, "no such file"), ('"a\\0b"', 78, "is not a valid path"))
    for path, expected_code, expected in cases:
        code, message = run("preprocess", "toy.yaml", f"corpus.valid.src={path}")
        assert code == expected_code
        assert message.count(expected) == 1
