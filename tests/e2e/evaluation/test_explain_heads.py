"""`mtkit explain --src --ref`: tables of the attention heads of all model families, reference alignments, refusals."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from mtkit.cli import entry
from mtkit.errors import DataError
from mtkit.layers.config import LearnedConfig
from mtkit.models.rnn.config import AttentionRNNConfig, Seq2SeqRNNConfig
from mtkit.models.transformer.config import TransformerConfig
from tests.toy import runs

CONFIG = TransformerConfig(d_model=16, d_ff=16, num_heads=2, encoder_layers=1, decoder_layers=2)


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    code = entry.execute([str(word) for word in words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def cells(table: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.rstrip("\n").split("\n")[2:]]


def test_a_row_for_each_head_with_alignments_of_the_lexicon(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs.write_all(tmp_path)
    runs.run(tmp_path)
    capsys.readouterr()
    words = ["explain", tmp_path / "run", "--src", tmp_path / "test.en", "--ref", tmp_path / "test.de"]
    words += ["--format", "markdown"]
    code, table, err = run(capsys, *words, "--json", tmp_path / "figures.json")
    assert code == 0, err
    rows = cells(table)
    assert [row[:2] for row in rows] == [
        ["encoder.0.attention", "0"],
        ["encoder.0.attention", "1"],
        ["decoder.0.attention", "0"],
        ["decoder.0.attention", "1"],
        ["decoder.0.cross_attention", "0"],
        ["decoder.0.cross_attention", "1"],
        ["decoder.0.cross_attention", "mean"],
    ]
    assert [bool(row[8]) for row in rows] == [False] * 4 + [True] * 3
    assert err == "AER: alignment error rate against IBM Model 1\n"
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert figures["sentences"] == 7
    assert [f"{row['entropy']:.3f}" for row in figures["rows"]] == [row[2] for row in rows]


def test_the_lexicon_aligns_word_by_word_translations_without_errors(tmp_path: Path) -> None:
    """The toy corpus is translated word by word, so the reference of IBM Model 1 is the diagonal."""
    from mtkit.analysis import attention
    from mtkit.model_folder.folder import read_model
    from mtkit.translate.reference_text import read_reference_text

    runs.write_all(tmp_path)
    runs.run(tmp_path)
    text = read_reference_text(tmp_path / "test.en", tmp_path / "test.de")
    _, reference = attention._reference(read_model(tmp_path / "run"), text, None)
    assert reference is not None
    wrong = sum(
        link not in {(i, j) for i, s in enumerate(src) for j, t in enumerate(tgt) if runs.WORDS[s] == t}
        for index, (src, tgt) in enumerate(
            (src.split(), ref.split()) for src, ref in zip(text.src, text.ref, strict=True)
        )
        for link in reference(index).sure
    )
    assert wrong == 0


def test_reference_alignments_of_a_file_are_by_word(toy_model, tmp_path, capsys) -> None:
    """Of characters as tokens, an alignment of all words to all words has no errors in precision."""
    (tmp_path / "src").write_text("the big dog\na cat\n")
    (tmp_path / "ref").write_text("the dog\na red cat\n")
    everything = ["0?0 0?1 1?0 1?1 2?0 2?1", "0?0 0?1 0?2 1?0 1?1 1?2"]
    (tmp_path / "alignments").write_text("\n".join(everything) + "\n")
    words = ["explain", toy_model(CONFIG), "--src", tmp_path / "src", "--ref", tmp_path / "ref"]
    words += ["--format", "markdown"]
    code, table, err = run(capsys, *words, "--alignments", tmp_path / "alignments")
    assert code == 0, err
    assert {row[8] for row in cells(table) if "cross" in row[0]} == {"0.000"}
    (tmp_path / "alignments").write_text("0-9\n\n")
    code, _, err = run(capsys, *words, "--alignments", tmp_path / "alignments")
    assert (code, err.count("\n")) == (65, 1)
    assert "alignments:1: 0-9: the pair has 3 source and 2 target words" in err


def test_a_recurrent_decoder_has_one_row(toy_model, text, tmp_path, capsys) -> None:
    model = toy_model(AttentionRNNConfig(d_model=8, d_embed=8, d_attention=8))
    code, table, err = run(capsys, "explain", model, "--src", text, "--ref", text, "--format", "markdown")
    assert code == 0, err
    ((module, head, *_, aer),) = cells(table)
    assert (module, head, aer) == ("cross_attention", "0", "")
    for name in ("src", "ref"):
        (tmp_path / name).write_text("the dog\n")
    (tmp_path / "alignments").write_text("0?0 0?1 1?0 1?1\n")
    words = ["--src", tmp_path / "src", "--ref", tmp_path / "ref", "--alignments", tmp_path / "alignments"]
    code, table, err = run(capsys, "explain", model, *words, "--format", "markdown")
    assert (code, cells(table)[0][8]) == (0, "0.000"), err


def test_refusals(toy_model, text, tmp_path, capsys) -> None:
    model = toy_model(Seq2SeqRNNConfig(d_model=8, d_embed=8))
    code, _, err = run(capsys, "explain", model, "--src", text, "--ref", text)
    assert (code, err.count("\n")) == (2, 1)
    assert "a model of kind rnn has no attention over the source" in err
    (tmp_path / "short").write_text("one line\n")
    code, _, err = run(capsys, "explain", model, "--src", text, "--ref", tmp_path / "short")
    assert (code, err.count("\n")) == (65, 1)
    (tmp_path / "empty").write_text("")
    code, _, err = run(capsys, "explain", model, "--src", tmp_path / "empty", "--ref", tmp_path / "empty")
    assert (code, err.count("\n")) == (65, 1)


def test_a_line_beyond_the_positions_is_named(toy_model, tmp_path, capsys) -> None:
    learned = LearnedConfig(max_length=20)
    model = toy_model(replace(CONFIG, encoder_positions=learned, decoder_positions=learned))
    (tmp_path / "short").write_text("a dog\nthe cat\n")
    (tmp_path / "long").write_text("a dog\nthe dog sees the big red house\n")
    key = {"source": "encoder_positions", "reference": "decoder_positions"}
    for side, src, ref in (("source", "long", "short"), ("reference", "short", "long")):
        text = ("--src", tmp_path / src, "--ref", tmp_path / ref)
        for words in (("explain", model), ("compress", model, "--to", "heads", "-o", tmp_path / "small")):
            code, out, err = run(capsys, *words, *text)
            assert (code, out, err.count("\n")) == (DataError.exit_code, "", 1)
            assert f"line 2 of the {side}: 32 tokens, prefix and end of sentence included, and the model has 20" in err
            assert f"(model.{key[side]}.max_length)" in err
    assert not (tmp_path / "small").exists()
    text = ("--src", tmp_path / "short", "--ref", tmp_path / "short")
    code, _, err = run(capsys, "explain", model, *text, "--prefix", "the dog sees")
    assert (code, "line 2 of the source: 22 tokens" in err) == (DataError.exit_code, True)
