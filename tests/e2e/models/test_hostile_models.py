"""Model folders with right hashes and wrong content are refused with one sentence before memory is allocated."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
import torch
from safetensors.torch import load_file, save_file

from mtkit.cli import entry
from mtkit.io.records import read_record
from mtkit.models.capabilities import ModelConfigBase
from mtkit.models.transformer.config import TransformerConfig
from tests.toy.hostile import BYTE, CONTROL, copy_model, read_pieces, rename, set_config, with_pieces

Edit = Callable[[Path], object]
WEIGHTS, LEXICON, SPM = "model.safetensors", "lexicon.safetensors", "spm.model"
SMALL = TransformerConfig(d_model=8, d_ff=8, num_heads=2, encoder_layers=1, decoder_layers=1)


@pytest.fixture
def model(toy_model: Callable[[ModelConfigBase], Path]) -> Path:
    """A model folder with a lexicon."""

    def add_lexicon(folder: Path) -> None:
        size = len(read_pieces((folder / SPM).read_bytes()))
        columns: dict[str, Any] = {
            "frequent": np.arange(size, dtype=np.int32),
            "offsets": np.arange(size + 1, dtype=np.int64),
            "probabilities": np.ones(size, dtype=np.float16),
            "targets": np.arange(size, dtype=np.int32),
        }
        safetensors.numpy.save_file(columns, folder / LEXICON)
        set_config(folder, ("files", LEXICON), "")

    made = toy_model(SMALL)
    return copy_model(made, made.with_name("with-lexicon"), add_lexicon)


@pytest.fixture
def translate(model: Path, text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Translate with an edited copy of the model; returns exit code and message."""

    def run(edit: Edit, *options: str) -> tuple[int, str]:
        folder = copy_model(model, tmp_path / "edited", edit)
        code = entry.execute(["translate", str(folder), str(text), "--compute-type", "float32", *options])
        err = capsys.readouterr().err
        assert err.count("\n") <= 1
        return code, err

    return run


def edit_weights(change: Callable[[torch.Tensor], torch.Tensor]) -> Edit:
    return lambda folder: save_file(
        {name: change(tensor) for name, tensor in load_file(folder / WEIGHTS).items()}, folder / WEIGHTS
    )


def edit_pieces(change: Any) -> Edit:
    return lambda folder: (folder / SPM).write_bytes(with_pieces((folder / SPM).read_bytes(), change))


def edit_lexicon(name: str, change: Callable[[Any], Any]) -> Edit:
    def edit(folder: Path) -> None:
        columns = safetensors.numpy.load_file(folder / LEXICON)
        safetensors.numpy.save_file({**columns, name: np.ascontiguousarray(change(columns[name]))}, folder / LEXICON)

    return edit


def test_the_copy_works(translate: Callable[..., tuple[int, str]]) -> None:
    code, message = translate(lambda folder: None)
    assert code == 0
    assert "error" not in message


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        (edit_weights(lambda tensor: tensor.to(torch.int64)), "is I64, the model has F32"),
        (edit_weights(lambda tensor: tensor.half()), "is F16, the model has F32"),
        (edit_weights(lambda tensor: tensor[:1].clone()), "the model has ["),
        (lambda folder: set_config(folder, ("model", "d_model"), 100_000), "the model has [100000"),
        (lambda folder: set_config(folder, ("model", "d_ff"), 100_000), "the model has [100000"),
        (edit_pieces(rename(110, b"\xff\xfe")), "a token of the model is not UTF-8"),
        (edit_pieces(rename(4, b"<other>")), "the model has no special token <sep>"),
        (edit_pieces(lambda number, piece: replace(piece, type=None if number == 5 else piece.type)), "token <mask>"),
        (edit_pieces(lambda number, piece: replace(piece, type=CONTROL)), "not a sentencepiece model"),
        (edit_pieces(lambda number, piece: replace(piece, type=BYTE, text=b"<0xZZ>")), "not a sentencepiece model"),
    ],
)
def test_weights_and_tokens_of_another_model(
    translate: Callable[..., tuple[int, str]], edit: Edit, expected: str
) -> None:
    code, message = translate(edit)
    assert code == 65
    assert expected in message


@pytest.mark.whole
@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        (edit_lexicon("targets", lambda ids: ids + 1), "its columns contradict each other"),
        (edit_lexicon("targets", lambda ids: -ids), "its columns contradict each other"),
        (edit_lexicon("targets", lambda ids: ids[None]), "its columns contradict each other"),
        (edit_lexicon("offsets", lambda offsets: -offsets), "its columns contradict each other"),
        (edit_lexicon("offsets", lambda offsets: offsets[:5]), "its columns contradict each other"),
        (edit_lexicon("offsets", lambda offsets: offsets[:0]), "its columns contradict each other"),
        (edit_lexicon("probabilities", lambda weights: weights[:3]), "its columns contradict each other"),
        (edit_lexicon("frequent", lambda ids: ids.astype(np.float32)), "its columns contradict each other"),
        (edit_lexicon("frequent", lambda ids: ids[:30]), "its columns contradict each other"),
        (edit_lexicon("frequent", lambda ids: np.arange(500, dtype=np.int32)), "the lexicon of another model ("),
        (edit_lexicon("offsets", lambda offsets: np.append(offsets, offsets[-1:])), "the lexicon of another model ("),
    ],
)
def test_a_lexicon_of_another_model(
    model: Path, tmp_path: Path, text: Path, capsys: pytest.CaptureFixture[str], edit: Edit, expected: str
) -> None:
    folder = str(copy_model(model, tmp_path / "edited", edit))
    assert entry.execute(["explain", folder, "--src", str(text), "--ref", str(text)]) == 65
    assert expected in capsys.readouterr().err
    assert entry.execute(["translate", folder, str(text)]) == 0  # which does not use it


@pytest.mark.parametrize("name", [WEIGHTS, LEXICON, SPM, "config.json"])
@pytest.mark.parametrize("stream", ["pipe", "device"])
def test_a_pipe_or_device_in_a_model_folder(
    text: Path, model: Path, name: str, stream: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (model / name).unlink()
    if stream == "pipe":
        os.mkfifo(model / name)
    else:
        (model / name).symlink_to("/dev/zero")
    assert entry.execute(["translate", str(model), str(text)]) in (65, 66)
    assert name in capsys.readouterr().err


OTHER_KINDS = [(("is_encoder_only",), True), (("is_language_model",), True)]
NEEDS_TAG = (("requires_tag",), True)
VALUES = (None, True, -1, 0, 10**6, 10**30, 1.5, 1e308, "", "x", "\0", "\u2028", [], [1], {}, {"kind": "x"}, [[[[]]]])


def paths(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for key, inner in value.items() if isinstance(value, dict) else ():
        yield (*path, key)
        yield from paths(inner, (*path, key))


def check_configuration(model: Path, text: Path, path: tuple[str, ...], value: Any, capsys: Any) -> None:
    original = (model / "config.json").read_text()
    set_config(model, path, value)
    code = entry.execute(["translate", str(model), str(text)])
    err = capsys.readouterr().err
    if (path, value) in OTHER_KINDS:  # whole models, which translate nothing
        assert (code, "language model" in err) == (2, True)
    else:
        assert code in ((2,) if (path, value) == NEEDS_TAG else (0, 65, 66)), (path, value, err)
    assert err.count("\n") <= 12
    (model / "config.json").write_text(original)


@pytest.mark.whole
def test_every_key_of_the_configuration_replaced(model: Path, text: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each key by one value: another JSON type, a huge number or a nested list."""
    for number, path in enumerate(paths(read_record(model / "config.json", remedy=""))):
        check_configuration(model, text, path, VALUES[number % len(VALUES)], capsys)


@pytest.mark.slow
@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_every_key_of_the_configuration_replaced_by_every_value(
    model: Path, text: Path, value: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in paths(read_record(model / "config.json", remedy="")):
        check_configuration(model, text, path, value, capsys)
