"""`mtkit compress`: every kind gives a model folder that translates; the bound on BLEU; refusals."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from mtkit.cli import entry
from mtkit.compression import compress
from mtkit.errors import DataError, UsageError
from mtkit.io.files import host_name, temporary_beside
from mtkit.layers.variants.config import PerformerConfig
from mtkit.model_folder.config_file import WEIGHTS, verify_model
from mtkit.model_folder.folder import read_metadata, read_model
from mtkit.models.rnn.config import Seq2SeqRNNConfig
from mtkit.models.transformer.config import TransformerConfig
from mtkit.native.library import VARIABLE, native

CONFIG = TransformerConfig(d_model=64, d_ff=96, num_heads=4, encoder_layers=2, decoder_layers=2)


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    code = entry.execute([str(word) for word in words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture
def ref(tmp_path: Path, text: Path, toy_model, capsys: pytest.CaptureFixture[str]) -> Path:
    """The model's own translation, so that its BLEU is 100."""
    path = tmp_path / "ref.txt"
    assert run(capsys, "translate", toy_model(CONFIG), text, "-o", path, "--compute-type", "float32")[0] == 0
    return path


SIZES = [("bf16", 0.55), ("int8", 0.35), ("int4", 0.27), ("sparse", 0.7)]
SIZES += [("heads", 0.95), ("ffn", 0.95), ("half-depth", 0.7)]


@pytest.mark.whole
@pytest.mark.parametrize(("to", "size"), SIZES)
def test_every_kind_is_smaller_and_translates(toy_model, tmp_path, text, ref, capsys, to, size) -> None:
    model, output = toy_model(CONFIG), tmp_path / "small"
    words = ["compress", model, "--to", to, "-o", output, "--src", text, "--ref", ref, "--threads", 1]
    words += ["--format", "markdown"]
    words += ["--compute-type", "float32"]  # the toy has learned its lines by heart, and bf16 changes a word of one
    code, table, err = run(capsys, *words)
    assert code == 0, err
    verify_model(output)
    assert (output / WEIGHTS).stat().st_size < size * (model / WEIGHTS).stat().st_size
    code, hyps, _ = run(capsys, "translate", output, text)
    assert code == 0
    assert hyps.count("\n") == 12
    rows = [line.split("|") for line in table.split("\n")[:-1]]
    assert [row[1].strip() for row in rows[2:]] == [str(model), f"{output} ({to})"]
    assert float(rows[2][5]) > 99
    config = read_metadata(output).model
    assert isinstance(config, TransformerConfig)
    if to == "heads":
        counts = [*(config.encoder_heads or []), *(config.decoder_heads or []), *(config.cross_heads or [])]
        assert (len(counts), sum(counts)) == (6, 14)  # of 24, 40 % removed
    if to == "half-depth":
        assert (config.encoder_layers, config.decoder_layers) == (1, 1)


@pytest.mark.whole
@pytest.mark.parametrize("to", ["int4", "int8"])
def test_quantised_folders_need_no_native_library(toy_model, tmp_path, text, capsys, monkeypatch, to) -> None:
    model, small = toy_model(CONFIG), tmp_path / "small"
    assert run(capsys, "compress", model, "--to", to, "-o", small)[0] == 0
    words = ("translate", small, text, "--compute-type")
    expected = run(capsys, *words, "float32")
    monkeypatch.setenv(VARIABLE, "0")
    native.cache_clear()
    try:
        assert run(capsys, *words, "float32") == expected
        for name in ("int8", "bf16"):
            code, out, err = run(capsys, *words, name)
            assert (code, out.count("\n")) == (0, 12), err
    finally:
        native.cache_clear()


def test_sparse_weights_leave_random_features_as_they_are(toy_model, tmp_path, capsys) -> None:
    model, output = toy_model(replace(CONFIG, encoder_attention=PerformerConfig(num_features=8))), tmp_path / "small"
    code, _, err = run(capsys, "compress", model, "--to", "sparse", "-o", output, "--fraction", "0.9")
    assert code == 0, err
    whole, small = (dict(read_model(folder).model.named_buffers()) for folder in (model, output))
    name = "encoder.0.attention.kernel.projection_matrix"
    assert small[name].equal(whole[name])


def test_help_states_the_fraction_of_a_model_with_gates(capsys) -> None:
    code, out, _ = run(capsys, "compress", "--help")
    assert code == 0
    assert "(default: 0.4; heads with gates: the closed ones)" in " ".join(out.replace("│", " ").split())


def test_nothing_is_written_if_too_much_bleu_is_lost(toy_model, tmp_path, text, ref, capsys) -> None:
    model, output = toy_model(CONFIG), tmp_path / "small"
    words = ["compress", model, "--to", "half-depth", "-o", output, "--src", text, "--ref", ref, "--max-loss", "0.5"]
    code, _, err = run(capsys, *words)
    assert code == DataError.exit_code
    assert "and --max-loss is 0.5; nothing was written" in err
    assert not output.exists()
    words[words.index("half-depth")] = "ffn"
    assert run(capsys, *words, "--fraction", 0)[0] == 0
    assert output.exists()


def test_an_unreadable_result_replaces_no_model(toy_model, tmp_path, capsys, monkeypatch) -> None:
    model, output = toy_model(CONFIG), tmp_path / "small"
    assert run(capsys, "compress", model, "--to", "int8", "-o", output)[0] == 0
    before = (output / WEIGHTS).read_bytes()
    monkeypatch.setattr(
        compress, "drop_layers", lambda config, tensors, **counts: (config, dict(list(tensors.items())[1:]))
    )
    code, _, err = run(capsys, "compress", model, "--to", "half-depth", "-o", output)
    assert code == DataError.exit_code
    assert "is missing" in err
    assert (output / WEIGHTS).read_bytes() == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--to", "heads"], "--to heads computes the importance of heads from text; give --src and --ref"),
        (["--to", "int8", "--max-loss", "1"], "--max-loss compares the BLEU of both models; give --src and --ref"),
        (["--to", "int8", "--src", "x"], "compress: give both --src and --ref, or neither"),
        (["--to", "ffn", "--fraction", "1"], "--fraction 1.0: leaves none of the 96 units"),
        (["--to", "heads", "--fraction", "0.9", "--src", "TEXT", "--ref", "TEXT"], "the maximum is 0.75"),
        (["--to", "int8", "--fraction", "0.2"], "--fraction has no effect with --to int8; omit it"),
        (
            ["--to", "int8", "--prefix", "x"],
            "--tag, --prefix, --src-lang, --tgt-lang and --compute-type have no effect without --src and",
        ),
        (["--to", "int8", "--compute-type", "bf16"], "--compute-type have no effect without --src and --ref; omit"),
        (["--to", "ffn", "-o", "MODEL"], "is the model itself"),
        (["--to", "ffn", "-o", "TEXT"], "exists and is not a model folder"),
    ],
)
def test_refused(toy_model, tmp_path, text, capsys, options, message) -> None:
    model = toy_model(CONFIG)
    names = {"TEXT": text, "MODEL": model}
    words = [names.get(word, word) for word in options]
    code, out, err = run(capsys, "compress", model, "-o", tmp_path / "small", *words)
    assert (code, out) == (UsageError.exit_code, "")
    assert message in err
    assert not (tmp_path / "small").exists()
    verify_model(model)


def test_heads_are_pruned_again_and_one_of_each_module_stays(toy_model, tmp_path, text, ref, capsys) -> None:
    model, names = toy_model(CONFIG), [tmp_path / name for name in ("fewer", "one", "none")]
    words = ("--to", "heads", "--src", text, "--ref", ref)
    assert run(capsys, "compress", model, *words, "-o", names[0], "--fraction", "0.5")[0] == 0  # 12 of 24
    assert run(capsys, "compress", names[0], *words, "-o", names[1], "--fraction", "0.5")[0] == 0
    config = read_metadata(names[1]).model
    assert isinstance(config, TransformerConfig)
    assert [config.encoder_heads, config.decoder_heads, config.cross_heads] == [[1, 1]] * 3
    assert run(capsys, "translate", names[1], text)[0] == 0
    code, out, err = run(capsys, "compress", names[1], *words, "-o", names[2])
    assert (code, out, err.count("\n")) == (UsageError.exit_code, "", 1)
    assert "removes 2 of 6 heads, but each of 6 attention modules keeps at least one; the maximum is 0.00" in err
    assert not names[2].exists()


def test_half_depth_keeps_as_many_layers_as_stated(toy_model, tmp_path, capsys) -> None:
    model, output = toy_model(CONFIG), tmp_path / "small"
    stated = ["--encoder-layers", str(CONFIG.encoder_layers), "--decoder-layers", "1"]
    assert run(capsys, "compress", model, "--to", "half-depth", "-o", output, *stated)[0] == 0
    config = read_metadata(output).model
    assert isinstance(config, TransformerConfig)
    assert (config.encoder_layers, config.decoder_layers) == (CONFIG.encoder_layers, 1)
    code, _, err = run(capsys, "compress", model, "--to", "int8", "-o", tmp_path / "other", *stated)
    assert (code, err.count("\n")) == (UsageError.exit_code, 1)
    assert "--encoder-layers and --decoder-layers have no effect with --to int8; omit them" in err


def test_kinds_of_models_without_such_parts_and_stored_integers(toy_model, tmp_path, text, capsys) -> None:
    rnn = toy_model(Seq2SeqRNNConfig(d_model=64, d_embed=64))
    code, _, err = run(capsys, "compress", rnn, "--to", "half-depth", "-o", tmp_path / "small")
    assert (code, "only transformer has these parts" in err) == (UsageError.exit_code, True)
    assert run(capsys, "compress", rnn, "--to", "int8", "-o", tmp_path / "small")[0] == 0
    code, _, err = run(capsys, "compress", tmp_path / "small", "--to", "ffn", "-o", tmp_path / "smaller")
    assert (code, "prune the model before quantising it" in err) == (UsageError.exit_code, True)
    code, _, err = run(capsys, "average", tmp_path / "small", "-o", tmp_path / "average")
    assert (code, "average the models before compressing them" in err) == (DataError.exit_code, True)


@pytest.mark.parametrize("config", [{"model_type": "marian"}, {"mtkit": "0.2.0"}, [], "damaged"])
def test_a_folder_of_another_program_is_not_replaced(toy_model, tmp_path, capsys, config) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "config.json").write_text(config if isinstance(config, str) else json.dumps(config))
    (other / "weights.bin").write_text("precious")
    model = toy_model(CONFIG)
    for words in (("compress", model, "--to", "int8"), ("average", model)):
        code, _, err = run(capsys, *words, "-o", other)
        assert (code, err.count("\n")) == (2, 1)
        assert "other: exists and is not a model folder of mtkit; choose another name" in err
    assert (other / "weights.bin").read_text() == "precious"


def test_files_of_the_user_in_a_model_folder_are_not_lost(toy_model, tmp_path, capsys) -> None:
    model, output = toy_model(CONFIG), tmp_path / "small"
    words = ("compress", model, "--to", "int8", "-o", output)
    assert run(capsys, *words)[0] == 0
    assert run(capsys, *words)[0] == 0
    (output / "notes.txt").write_text("precious")
    code, _, err = run(capsys, *words)
    assert (code, "small/notes.txt: no file of a model folder, which would be replaced; move it away" in err) == (
        2,
        True,
    )
    assert (output / "notes.txt").read_text() == "precious"


@pytest.mark.parametrize("loss", ["nan", "inf"])
def test_a_bound_that_is_no_number(toy_model, tmp_path, text, ref, capsys, loss) -> None:
    words = ("compress", toy_model(CONFIG), "--to", "int8", "-o", tmp_path / "small", "--src", text, "--ref", ref)
    code, _, err = run(capsys, *words, "--max-loss", loss)
    assert (code, f"--max-loss {loss}: not a number of BLEU points" in err) == (2, True)


def test_a_text_of_blank_lines_is_no_validation_text(toy_model, tmp_path, capsys) -> None:
    (tmp_path / "blank").write_text("\n \n")
    words = ("--to", "heads", "-o", tmp_path / "small", "--src", tmp_path / "blank", "--ref", tmp_path / "blank")
    code, _, err = run(capsys, "compress", toy_model(CONFIG), *words)
    assert (code, "blank: all lines are blank" in err) == (65, True)


def test_what_a_killed_compression_left_is_removed(toy_model, tmp_path, capsys) -> None:
    abandoned = temporary_beside(tmp_path / "small").with_name(f".small.{host_name()}.{2**22 + 1}.tmp")
    (abandoned / "model").mkdir(parents=True)
    assert run(capsys, "compress", toy_model(CONFIG), "--to", "int8", "-o", tmp_path / "small")[0] == 0
    assert not abandoned.exists()
    assert not list(tmp_path.glob(".small*.tmp")) + list(tmp_path.glob("tmp*"))
